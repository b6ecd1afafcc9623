// What the suite is run on: implementations, each in a runtime.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import process from 'node:process';

import { CHROMIUM, openBrowser } from './browser.mjs';
import { openRuntime } from './runtime.mjs';

/**
 * What tests may need of a subject:
 *
 * - `workers`: `spawnWorker()`; `death:close`, `death:throw`, `death:return`: a worker dies when it
 *   closes itself, of an error that nobody catches, or when it has nothing left to do
 * - `processes`: `spawnProcess()`, and locks reach from one process to the other
 * - `programs`: `runProgram()`: a process that is looked at from outside
 * - `memory`, `listeners`: `memory()` in bytes, `abortListeners(signal)`
 * - `buckets`, `user agents`: `openBucket(name)`, `openUserAgent()`, which give a lock manager
 * - `navlock`: decisions of ours where the specification is silent
 *
 * @typedef {object} Subject
 * @property {string} title
 * @property {string[]} offers
 * @property {() => string | false} [missing]  what it needs and does not find
 * @property {() => Promise<Session>} open
 *
 * @typedef {object} Session
 * @property {string} version
 * @property {(test: import('../kit/test.mjs').Test) => Promise<{ passed: boolean, reason?: string }>} run
 * @property {() => Promise<void>} close
 */

const require = createRequire(import.meta.url);
const development = (name, file) => path.join(path.dirname(require.resolve(`${name}/package.json`)), file);

/** The runtimes, which are development dependencies; `node20` is the oldest Node that we support. */
export const runtimes = {
  node: {
    title: 'Node',
    command: () => [development('node', 'bin/node'), '--expose-gc', '--no-warnings'],
    offers: ['death:close', 'death:throw', 'death:return', 'listeners', 'memory'],
  },
  node20: {
    title: 'Node 20',
    command: () => [development('node-20', 'bin/node'), '--expose-gc', '--no-warnings'],
    offers: ['death:close', 'death:throw', 'death:return', 'listeners', 'memory'],
  },
  deno: {
    title: 'Deno',
    command: () => [development('deno', 'deno'), 'run', '--allow-all', '--no-prompt', '--quiet', '--v8-flags=--expose-gc'],
    offers: ['death:close', 'death:throw', 'listeners', 'memory'],
  },
  bun: {
    title: 'Bun',
    command: () => [development('bun', 'bin/bun.exe'), 'run'],
    offers: ['death:close', 'death:throw', 'listeners', 'memory'],
  },
};

const EVERYWHERE = ['workers', 'death:terminate'];

/** @type {Record<string, Subject>} */
export const subjects = {
  node: native('node'),
  deno: native('deno'),
  chromium: {
    title: 'Chromium',
    offers: [...EVERYWHERE, 'death:close'],
    missing: () => !existsSync(CHROMIUM) && `there is no ${CHROMIUM}: install it, or set CHROMIUM to its path`,
    open: () => openBrowser('native'),
  },
};

function native(name) {
  const { title, command, offers } = runtimes[name];
  return {
    title,
    offers: [...EVERYWHERE, 'programs', ...offers],
    open: () => openRuntime({ realm: 'native', command: command() }),
  };
}

// navlock itself, once it is there: `navlock-node`, `navlock-node-machine` and so on.
if (existsSync(new URL('../realms/navlock.mjs', import.meta.url))) {
  for (const [name, { title, command, offers }] of Object.entries(runtimes)) {
    for (const reach of ['process', 'machine']) {
      const ours = ['programs', 'buckets', 'user agents', 'navlock', ...(reach === 'machine' ? ['processes'] : [])];
      subjects[reach === 'process' ? `navlock-${name}` : `navlock-${name}-machine`] = {
        title: `navlock, ${title}, reach ${reach}`,
        offers: [...EVERYWHERE, ...offers, ...ours],
        open: () => openRuntime({ realm: 'navlock', command: command(), reach }),
      };
    }
  }
}
