// Locks go on working when a program changes built-in objects of the language and the runtime after it has loaded the
// module.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { runtimes } from '../runtimes.mjs';
import { evaluate, evaluateOn } from './programs.mjs';

/** By what is replaced: a function that replaces it, which is run in a process of its own. */
const ways = {
  'methods of promises, functions and maps': (replace) => {
    const fail = () => { throw new Error('replaced'); };
    replace(Promise.prototype, 'then', { value: fail });
    for (const name of ['apply', 'bind', 'call']) replace(Function.prototype, name, { value: fail });
    for (const name of ['get', 'set']) {
      replace(Map.prototype, name, { value: fail });
      replace(WeakMap.prototype, name, { value: fail });
    }
  },
  'global constructors and functions': (replace) => {
    const names = ['AbortController', 'AbortSignal', 'DOMException', 'Error', 'Map', 'Promise', 'Reflect', 'TypeError', 'WeakMap', 'setImmediate'];
    for (const name of names) replace(globalThis, name, { value: undefined });
    replace(Object, 'defineProperty', { value: undefined });
  },
  // Polyfills of `watch` once did this.
  'the prototype of all objects, with what cannot be overwritten': (replace) => {
    for (const name of ['before', 'first', 'isHeld', 'manager', 'watch']) replace(Object.prototype, name, { value: 'mine', writable: false });
  },
};

for (const [what, way] of Object.entries(ways)) {
  test(`locks work on when a program has replaced ${what}`, async () => {
    const outcomes = await evaluate({ NAVLOCK_REACH: 'process' }, async ({ locks, look }, way) => {
      const [controller, { Promise, setTimeout }, { defineProperty }] = [new AbortController(), globalThis, Object];
      const undone = [];
      const replace = (object, name, descriptor) => {
        const { [name]: known } = Object.getOwnPropertyDescriptors(object);
        undone.push(() => known ? defineProperty(object, name, known) : delete object[name]);
        defineProperty(object, name, { configurable: true, ...descriptor });
      };
      const reasonOf = async (promise) => {
        try {
          await promise;
        } catch (reason) {
          return reason;
        }
      };
      const asked = {};
      await undefined; // the caller has the promise by now, and has called its methods
      (0, eval)(way)(replace);
      try {
        let release;
        asked.held = locks.request('db', () => new Promise((resolve) => (release = resolve)));
        asked.unavailable = locks.request('db', { ifAvailable: true }, (lock) => lock);
        asked.aborted = reasonOf(locks.request('db', { signal: controller.signal }, () => {}));
        asked.waiting = locks.request('db', { mode: 'shared' }, ({ name }) => name);
        asked.seen = locks.query();
        asked.looked = look(locks, { name: 'db' }).next();
        await asked.looked; // so that the picture shows the state before the abort
        await new Promise((resolve) => setTimeout(resolve, 50)); // not a function of ours, which are what is tested
        controller.abort('reason');
        release('released');
        asked.stolen = reasonOf(locks.request('stolen', () => new Promise(() => {})));
        await new Promise((resolve) => setTimeout(resolve, 50));
        asked.thief = locks.request('stolen', { steal: true }, () => 'stolen');
        await new Promise((resolve) => setTimeout(resolve, 50));
      } finally {
        for (const undo of undone) undo();
      }
      asked.stolen = asked.stolen.then(({ cause, name }) => [name, cause.code]);
      asked.looked = asked.looked.then(({ done, value }) => [done, value.event, value.pending.length]);
      asked.seen = asked.seen.then(({ held, pending }) => [held.length, pending.length]);
      return Promise.all(Object.values(asked));
    }, `(${way})`);
    assert.deepEqual(outcomes, ['released', null, 'reason', 'db', [1, 2], [false, 'picture', 2], ['AbortError', 'STOLEN'], 'stolen']);
  });
}

for (const [name, words] of Object.entries(runtimes)) {
  if (name === 'deno') continue; // it cannot end where its global object takes no properties
  test(`on ${name} locks, and warnings, work where the global object takes no properties and errors are frozen`, async () => {
    const env = { NAVLOCK_REACH: 'process', NAVLOCK_REPORT_HELD: '1' };
    const outcomes = await evaluateOn(words, env, async ({ locks }) => {
      Object.preventExtensions(globalThis);
      Object.freeze(Error.prototype);
      const warned = new Promise((resolve) => process.on('warning', resolve));
      const held = locks.request('db', () => warned);
      const deadline = setTimeout(() => {}, 20_000); // a held lock keeps no process alive
      const { code, lock, name } = await held;
      clearTimeout(deadline);
      const stolen = locks.request('db', () => locks.request('db', { steal: true }, () => {}));
      return [name, code, lock.name, await stolen.catch(({ cause }) => cause.code)];
    });
    assert.deepEqual(outcomes, ['NavlockWarning', 'NAVLOCK_HELD', 'db', 'STOLEN']);
  });
}

test('a proxy that a callback returns is asked for nothing but its `then`', async () => {
  const outcomes = await evaluate({ NAVLOCK_REACH: 'process' }, async ({ locks }) => {
    const calls = [];
    const handler = new Proxy({}, {
      get: (_, trap) => (target, ...words) => {
        calls.push([trap, String(words[0])]);
        return Reflect[trap](target, ...words);
      },
    });
    for (const target of [{}, Promise.resolve()]) {
      // A promise behind a proxy has a `then` that refuses the proxy.
      await locks.request('db', () => new Proxy(target, handler)).catch(() => {});
    }
    return calls;
  });
  assert.deepEqual(outcomes.filter(([trap, key]) => trap !== 'get' || key !== 'then'), []);
});

test('setters at the elements of all arrays see nothing of locks, and break nothing', async () => {
  const outcomes = await evaluate({ NAVLOCK_REACH: 'process' }, async ({ locks }) => {
    // The first query loads the addon and finds the bucket of the program. The runtime itself could not do that once the
    // setters are there. It could not set timers either, so `tasks` waits by immediates.
    await locks.query();
    const tasks = async () => {
      for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
    };
    let seen = '';
    const set = () => {
      const { stack } = new Error();
      if (stack.includes('.cjs')) seen += stack;
    };
    for (let index = 0; index < 8; index++) Object.defineProperty(Array.prototype, index, { configurable: true, set });
    const asked = {};
    try {
      let release;
      asked.lost = locks.request('db', () => new Promise((resolve) => (release = resolve))).catch(({ name }) => name);
      asked.waiting = locks.request('db', { mode: 'shared' }, ({ name }) => name);
      asked.seen = locks.query();
      await tasks();
      asked.stolen = locks.request('db', { steal: true }, () => 'stolen');
      await tasks();
      release('too late');
    } finally {
      for (let index = 0; index < 8; index++) delete Array.prototype[index];
    }
    const { held, pending } = await asked.seen;
    return [seen, held.map(({ name }) => name), pending.map(({ mode }) => mode), await asked.lost, await asked.stolen, await asked.waiting];
  });
  assert.deepEqual(outcomes, ['', ['db'], ['shared'], 'AbortError', 'stolen', 'db']);
});
