// What Node, Deno and Bun do for a file of the web-platform-tests.

import { readFileSync, writeSync } from 'node:fs';
import process from 'node:process';
import vm from 'node:vm';

import { startWorker } from './wpt-worker-outside.mjs';

/** @type {import('./wpt-file.mjs').Platform} */
export const platform = {
  read: (file) => readFileSync(file, 'utf8'),
  evaluate: (source, filename) => void vm.runInThisContext(source, { filename }),
  print: (line) => void writeSync(1, `${line}\n`),
  end: () => process.kill(process.pid, 'SIGKILL'),
  locationOf: (url) => new URL(url),
  ignoreRejections() {
    process.on('unhandledRejection', () => {});
    globalThis.addEventListener?.('unhandledrejection', (event) => event.preventDefault());
  },
  startWorker,
};
