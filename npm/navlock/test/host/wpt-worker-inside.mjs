// The inside of a worker of the web-platform-tests.

import { readFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import vm from 'node:vm';
import { parentPort, workerData } from 'node:worker_threads';

import { runFile } from './wpt-file.mjs';
import { platform } from './wpt-platform.mjs';

// A worker of the web has its job in the URL. On Bun the URL has lost its query, and the job is an argument.
const given = new URL(import.meta.url).searchParams.get('job') ?? (globalThis.Bun ? process.argv[2] : undefined);
const job = JSON.parse(given ?? workerData);

if (job.script) await runScript();
else await runFile({ ...job, scope: 'worker' }, platform);

/** Runs a script that exchanges messages with its owner as a worker of the web does. */
async function runScript() {
  const { openRealm } = await import(`../realms/${job.realm}.mjs`);
  await openRealm();
  const self = given ? globalThis : ownGlobals();
  if (globalThis.Bun) giveListenersTheirThis();
  const file = path.join(job.checkout, job.script);
  vm.runInThisContext(readFileSync(file, 'utf8'), { filename: file });
  self.postMessage('@ready');
}

/** Bun calls the listeners of its global scope without a `this`. */
function giveListenersTheirThis() {
  const { addEventListener } = globalThis;
  globalThis.addEventListener = (type, listener) => addEventListener.call(globalThis, type, (event) => listener.call(globalThis, event));
}

function ownGlobals() {
  globalThis.self = globalThis;
  globalThis.postMessage = (data) => parentPort.postMessage(data);
  globalThis.addEventListener = (type, listener) => {
    if (type === 'message') parentPort.on('message', (data) => listener.call(globalThis, { data }));
  };
  return globalThis;
}
