// The subjects of the suite: implementations, each in a runtime.

import { existsSync, readFileSync } from 'node:fs';

import { withCollector } from '../runtimes.mjs';
import { CHROMIUM, openBrowser } from './browser.mjs';
import { openEmbedded } from './embedded.mjs';
import { openRuntime } from './runtime.mjs';
import { WINDOWS, openWine } from './wine.mjs';

/**
 * What tests may need of a subject:
 *
 * - `workers`: `spawnWorker()`; `death:close`, `death:throw`, `death:return`: a worker dies when it
 *   closes itself, of an error that nobody catches, or when it has nothing left to do
 * - `processes`: `spawnProcess()`, and locks reach from one process to the other
 * - `programs`: `runProgram()`: a process that the test watches from outside
 * - `memory`, `listeners`: `memory()` in bytes, `abortListeners(signal)`
 * - `buckets`, `user agents`: `openBucket(name)`, `openUserAgent()`, which give a lock manager
 * - `refusal to clone`: a runtime in which platform objects can be made that are not cloned
 * - `abort algorithms`: a runtime in which signals have them, beside their listeners
 * - `navlock`: decisions of ours where the specification is silent
 *
 * @typedef {object} Subject
 * @property {string} title
 * @property {string[]} offers
 * @property {() => string | false} [missing]  what the subject needs and does not find
 * @property {boolean} [isEmbedded]  navlock in an engine embedded into Rust, for which cargo builds the program
 * @property {() => Promise<Session>} open
 *
 * @typedef {object} Session
 * @property {string} version
 * @property {(test: import('../kit/test.mjs').Test) => Promise<{ passed: boolean, reason?: string }>} run
 * @property {(job: object, ms: number) => Promise<object>} [runFile]  of the web-platform-tests
 * @property {() => Promise<void>} close
 */

/** Runtimes, and what tests can observe in them. */
const kinds = {
  node: {
    title: 'Node',
    offers: ['death:close', 'death:throw', 'death:return', 'listeners', 'memory', 'refusal to clone'],
  },
  node20: {
    title: 'Node 20',
    offers: ['death:close', 'death:throw', 'death:return', 'listeners', 'memory'],
  },
  deno: {
    title: 'Deno',
    offers: ['death:close', 'death:throw', 'listeners', 'memory', 'abort algorithms'],
  },
  bun: {
    title: 'Bun',
    offers: ['death:close', 'death:throw', 'listeners', 'memory', 'refusal to clone'],
  },
};

const EVERYWHERE = ['workers', 'death:terminate'];

/** @type {Record<string, Subject>} */
export const subjects = {
  node: native('node'),
  deno: native('deno'),
  chromium: {
    title: 'Chromium',
    offers: [...EVERYWHERE, 'death:close', 'refusal to clone', 'abort algorithms'],
    missing: () => !existsSync(CHROMIUM) && `there is no ${CHROMIUM}: install it, or set CHROMIUM to its path`,
    open: () => openBrowser('native'),
  },
};

function native(name) {
  const { title, offers } = kinds[name];
  return {
    title,
    offers: [...EVERYWHERE, 'programs', ...offers],
    open: () => openRuntime({ realm: 'native', command: withCollector[name] }),
  };
}

// navlock itself: `navlock-node`, `navlock-node-machine` and so on.
for (const [name, { title, offers }] of Object.entries(kinds)) {
  for (const reach of ['process', 'machine']) {
    const ours = ['programs', 'buckets', 'user agents', 'navlock', ...(reach === 'machine' ? ['processes'] : [])];
    subjects[reach === 'process' ? `navlock-${name}` : `navlock-${name}-machine`] = {
      title: `navlock, ${title}, reach ${reach}`,
      offers: [...EVERYWHERE, ...offers, ...ours],
      open: () => openRuntime({ realm: 'navlock', command: withCollector[name], reach }),
    };
  }
}

// The package for Windows, on Wine: `wine-node`, `wine-node-machine` and so on.
for (const name of ['node', 'bun']) {
  const { title, offers } = kinds[name];
  for (const reach of ['process', 'machine']) {
    const ours = ['buckets', 'user agents', 'navlock', 'programs', ...(reach === 'machine' ? ['processes'] : [])];
    subjects[reach === 'process' ? `wine-${name}` : `wine-${name}-machine`] = {
      title: `navlock, ${title} for Windows by Wine, reach ${reach}`,
      offers: [...EVERYWHERE, ...offers, ...ours],
      missing: () => !WINDOWS && 'NAVLOCK_WINDOWS, a folder with node.exe and bun.exe; see `cargo xtask windows`',
      open: () => openWine({ runtime: name, reach }),
    };
  }
}

// What bench/one-face measures, once `cargo xtask bench faces` has built it.
for (const name of ['node', 'deno', 'bun']) {
  const { title, offers } = kinds[name];
  subjects[`one-face-${name}`] = {
    title: `navlock-js on Node-API, ${title}`,
    offers: [...EVERYWHERE, ...offers, 'programs', 'buckets', 'user agents', 'navlock'],
    open: () => openRuntime({ realm: 'one-face', command: withCollector[name], reach: 'process' }),
  };
}

/** Engines embedded into Rust, and what tests can observe in navlock-js-run. Its own tests read this file as well. */
const embedded = JSON.parse(readFileSync(new URL('embedded.json', import.meta.url), 'utf8'));

// navlock in these engines: `boa`, `boa-machine` and so on.
for (const engine of ['boa', 'quickjs']) {
  for (const reach of ['process', 'machine']) {
    subjects[reach === 'process' ? engine : `${engine}-machine`] = {
      title: `${embedded[engine].title}, reach ${reach}`,
      offers: [...embedded.offers, ...(reach === 'machine' ? ['processes'] : [])],
      isEmbedded: true,
      open: () => openEmbedded({ engine, reach }),
    };
  }
}
