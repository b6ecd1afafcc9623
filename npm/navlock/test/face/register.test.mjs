// `navlock/register`, as the runtimes load it before a program.

import assert from 'node:assert/strict';
import path from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { runtimes } from '../runtimes.mjs';
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
    const words = [...runtimes[name], flag, js(module), file('registered.mjs')];
    const found = JSON.parse(await run(words, { env: { NAVLOCK_REACH: 'process' } }));
    assert.deepEqual(found, {
      locks: true,
      attribute: { enumerable: true, configurable: true, isAccessor: true },
      globals: ['writable configurable', 'writable configurable'],
      isReadOnly: true,
      isBranded: true,
      leaks: false,
      inModules: true,
      hasUserAgent: true,
      granted: 'db',
      // Workers of Node inherit the preloaded modules of their process. On other runtimes, a worker imports the module.
      inWorker: name.startsWith('node'),
    });
  });
}

test('locks that Bun itself has one day do not take the place of ours', async () => {
  // As its pull request 37020 has them: the same native object under two names, with interfaces of its own.
  const program = `
    const threads = require('node:worker_threads');
    class LockManager {}
    const native = new LockManager();
    for (const holder of [navigator, threads]) Object.defineProperty(holder, 'locks', { get: () => native, enumerable: true, configurable: true });
    globalThis.LockManager = LockManager;
    require(${JSON.stringify(js('register.cjs'))});
    const { locks, ...ours } = require(${JSON.stringify(js('index.cjs'))});
    const found = [navigator.locks, threads.locks, globalThis.LockManager, globalThis.Lock];
    console.log(found.every((value, index) => value === [locks, locks, ours.LockManager, ours.Lock][index]));
  `;
  assert.equal((await run([runtimes.bun[0], '-e', program])).trim(), 'true');
});

for (const [what, navigator] of [
  ['a plain object of another realm', 'require("node:vm").runInNewContext("({})")'],
  ['an object that has locks of its own', 'Object.create({ __proto__: {} }, { locks: { value: 5, configurable: true } })'],
]) {
  test(`a navigator that is ${what} gets ours, and no prototype of others does`, async () => {
    const program = `
      const navigator = ${navigator};
      Object.defineProperty(globalThis, 'navigator', { value: navigator, configurable: true });
      require(${JSON.stringify(js('register.cjs'))});
      console.log(navigator.locks === require(${JSON.stringify(js('index.cjs'))}).locks, 'locks' in Object.getPrototypeOf(navigator));
    `;
    assert.equal((await run([process.execPath, '-e', program])).trim(), 'true false');
  });
}
