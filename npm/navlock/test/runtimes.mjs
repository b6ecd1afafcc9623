// The runtimes, which are development dependencies.

import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(import.meta.url);
const executable = (name, file) => path.join(path.dirname(require.resolve(`${name}/package.json`)), file);

const deno = [executable('deno', 'deno'), 'run', '--allow-all', '--no-prompt', '--quiet'];

/** What a program is started with. `node20` is the oldest Node that we support. */
export const runtimes = {
  node: [executable('node', 'bin/node'), '--no-warnings'],
  node20: [executable('node-20', 'bin/node'), '--no-warnings'],
  deno,
  bun: [executable('bun', 'bin/bun.exe'), 'run'],
};

/** The same, with a collector that a program can call. Bun always has one. */
export const withCollector = {
  node: [...runtimes.node, '--expose-gc'],
  node20: [...runtimes.node20, '--expose-gc'],
  deno: [...deno, '--v8-flags=--expose-gc'],
  bun: runtimes.bun,
};
