// The runtimes, which are development dependencies.

import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(import.meta.url);
const executable = (name, file) => path.join(path.dirname(require.resolve(`${name}/package.json`)), file);

const deno = () => [executable('deno', 'deno'), 'run', '--allow-all', '--no-prompt', '--quiet'];

/**
 * The words with which a program is started on each runtime. `node20` is the oldest Node that we support. A runtime
 * is looked for when it is first used, so that code that needs none works without them.
 */
export const runtimes = {
  get node() { return [executable('node', 'bin/node'), '--no-warnings']; },
  get node20() { return [executable('node-20', 'bin/node'), '--no-warnings']; },
  get deno() { return deno(); },
  get bun() { return [executable('bun', 'bin/bun.exe'), 'run']; },
};

/** The same, with a garbage collector that the program can call. On Bun it always can. */
export const withCollector = {
  get node() { return [...runtimes.node, '--expose-gc']; },
  get node20() { return [...runtimes.node20, '--expose-gc']; },
  get deno() { return [...deno(), '--v8-flags=--expose-gc']; },
  get bun() { return runtimes.bun; },
};
