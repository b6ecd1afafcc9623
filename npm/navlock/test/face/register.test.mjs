// `navlock/register`, as it is given to the runtimes.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { runtimes } from '../subjects/index.mjs';
import { run } from './programs.mjs';

const file = (name) => fileURLToPath(new URL(name, import.meta.url));
const js = (name) => path.join(file('../../js'), name);
const WAYS = [
  ['node', '--import', 'register.mjs'], ['node', '-r', 'register.cjs'],
  ['node20', '--import', 'register.mjs'], ['node20', '-r', 'register.cjs'],
  ['deno', '--preload', 'register.mjs'],
  ['bun', '--preload', 'register.mjs'],
];

for (const [name, flag, module] of WAYS) {
  test(`${name} ${flag} installs navigator.locks, LockManager and Lock`, async () => {
    const words = [...runtimes[name].command(), flag, js(module), file('registered.mjs')];
    const found = JSON.parse(await run(words, { env: { NAVLOCK_REACH: 'process' } }));
    assert.deepEqual(found, {
      locks: true,
      attribute: { enumerable: true, configurable: true, isAccessor: true },
      globals: ['writable configurable', 'writable configurable'],
      isReadOnly: true,
      isBranded: true,
      leaks: false,
      hasUserAgent: true,
      granted: 'db',
      // Those of Node take over what their process was given; others import it.
      inWorker: name.startsWith('node'),
    });
  });
}
