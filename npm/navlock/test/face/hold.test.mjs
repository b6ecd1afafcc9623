// Locks that are held without a callback.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';

import { transformSync } from 'esbuild';
import { createUserAgent, hold, inspect } from 'navlock';

import { isFree, settle } from '../kit/hold.mjs';
import { runtimes, withCollector } from '../runtimes.mjs';
import { evaluateOn, navlock } from './programs.mjs';

/** A lock manager that no other test sees. */
const open = () => createUserAgent({ reach: 'process', private: true }).locks;

test('a lock is held until it is released, and free when release() is settled', async () => {
  const locks = open();
  const held = await hold(locks, 'db', { mode: 'shared' });
  assert.deepEqual([held.name, held.mode, held.lost.aborted], ['db', 'shared', false]);
  assert.equal(inspect(held.lock).bucket.length > 0, true);
  assert.equal(await isFree(locks, 'db'), false);
  assert.equal(await held.release(), undefined);
  assert.ok(await isFree(locks, 'db'));
});

test('release() again is the same promise, and releases nothing of others', async () => {
  const locks = open();
  const held = await hold(locks, 'db');
  const next = hold(locks, 'db');
  const released = held.release();
  assert.equal(held.release(), released);
  await released;
  const other = await next;
  held.release();
  await settle(locks);
  assert.equal(await isFree(locks, 'db'), false);
  await other.release();
});

test('holds of one name wait for each other in turn', async () => {
  const locks = open();
  const order = [];
  const first = await hold(locks, 'db');
  const rest = [1, 2].map(async (which) => {
    const held = await hold(locks, 'db');
    order.push(which);
    await held.release();
  });
  await first.release();
  await Promise.all(rest);
  assert.deepEqual(order, [1, 2]);
});

test('a lock that is not available is null, which `await using` takes', async () => {
  const locks = open();
  const held = await hold(locks, 'db');
  assert.equal(await hold(locks, 'db', { ifAvailable: true }), null);
  await held.release();
});

test('a hold that is aborted while it waits rejects with the reason, and leaves nothing', async () => {
  const locks = open();
  const held = await hold(locks, 'db');
  const controller = new AbortController();
  const waiting = hold(locks, 'db', { signal: controller.signal });
  controller.abort('reason');
  assert.equal(await waiting.catch((reason) => reason), 'reason');
  assert.deepEqual((await locks.query()).pending, []);
  await held.release();
});

test('a hold whose lock is stolen is told by its signal, and by release()', async () => {
  const locks = open();
  const held = await hold(locks, 'db');
  const lost = new Promise((resolve) => held.lost.addEventListener('abort', resolve));
  const thief = await hold(locks, 'db', { steal: true });
  await lost;
  assert.equal(held.lost.reason.cause.code, 'STOLEN');
  assert.equal(await held.release().catch((reason) => reason), held.lost.reason);
  assert.equal(await isFree(locks, 'db'), false);
  await thief.release();
});

test('a wrong argument is a rejection', async () => {
  const locks = open();
  for (const value of [undefined, null, {}, 'locks']) {
    await assert.rejects(hold(value, 'db'), { name: 'TypeError', message: 'hold: the first argument is not a lock manager' });
  }
  await assert.rejects(hold(locks, '-db'), { name: 'NotSupportedError' });
  await assert.rejects(hold(locks, 'db', { mode: 'none' }), { name: 'TypeError' });
});

test('a lock manager that ends a request and has not called its callback is an error', async () => {
  await assert.rejects(hold({ request: async () => {} }, 'db'), {
    name: 'TypeError', message: 'hold: the lock manager has ended the request and not called its callback',
  });
});

/** Holds a lock of another lock manager. */
async function holdTheirs({ hold }) {
  const { locks } = navigator;
  const held = await hold(locks, 'theirs');
  const before = await hold(locks, 'theirs', { ifAvailable: true });
  const seen = [held.name, held.mode, before];
  await held.release();
  const after = await hold(locks, 'theirs', { ifAvailable: true });
  seen.push(after !== null);
  await after.release();
  return seen;
}

for (const runtime of ['node', 'deno']) {
  test(`on ${runtime} the runtime's own locks can be held`, async () => {
    assert.deepEqual(await evaluateOn(runtimes[runtime], {}, holdTheirs), ['theirs', 'exclusive', null, true]);
  });
}

/** A function as text, because not all runtimes know the syntax. */
const BLOCK = `async function block(hold, locks, isFree, seen) {
  await using lock = await hold(locks, 'db');
  await using nothing = await hold(locks, 'db', { ifAvailable: true });
  seen.push(lock.name, nothing, await isFree());
  throw new Error('as planned');
}`;

/** Returns, in order, what is seen of the lock inside of the block and after it. */
async function useInBlock({ hold, locks }, source) {
  const seen = [];
  const isFree = () => locks.request('db', { ifAvailable: true }, (lock) => lock !== null);
  const block = new Function(`${source}; return block;`)();
  await block(hold, locks, isFree, seen).catch(({ message }) => seen.push(message));
  seen.push(await isFree());
  return seen;
}

for (const [name, words] of Object.entries(runtimes)) {
  test(`on ${name} a lock is free after the block of \`await using\`, also if that throws`, async () => {
    const source = name === 'node20' ? transformSync(BLOCK, { target: 'es2022' }).code : BLOCK;
    const seen = await evaluateOn(words, { NAVLOCK_REACH: 'process' }, useInBlock, source);
    assert.deepEqual(seen, ['db', null, false, 'as planned', true]);
  });
}

test('where a runtime has no Symbol.asyncDispose there is release(), and the symbol of a program that brings one', async () => {
  // Without the symbol, as in the first releases of Node 20.
  const seen = await evaluateOn(runtimes.node20, { NAVLOCK_REACH: 'process' }, async ({ hold, locks }) => {
    let asyncDispose;
    const { Symbol } = globalThis;
    globalThis.Symbol = new Proxy(() => {}, {
      apply: (_, self, words) => Symbol(...words),
      get: (_, name) => (name === 'asyncDispose' ? asyncDispose : Symbol[name]),
    });
    const held = await hold(locks, 'db');
    await held.release();
    asyncDispose = Symbol.for('Symbol.asyncDispose');
    const other = await hold(locks, 'db');
    await other[asyncDispose]();
    return locks.request('db', { ifAvailable: true }, (lock) => lock !== null);
  });
  assert.equal(seen, true);
});

/** Holds a lock by an object that nobody keeps. Returns the warning, and whether the lock is free after it. */
async function abandon({ hold, locks }) {
  const collect = globalThis.Bun ? () => Bun.gc(true) : () => globalThis.gc();
  const warned = new Promise((resolve) => process.on('warning', resolve));
  await (async function leaveBehind() {
    await hold(locks, 'db', { mode: 'shared' });
  })();
  const freed = locks.request('db', () => true);
  const timer = setInterval(collect, 10);
  const { code, lock, message, name } = await warned;
  const isFree = await freed;
  clearInterval(timer);
  return { code, isFree, lock, message, name };
}

for (const [name, words] of Object.entries(withCollector)) {
  test(`on ${name} the lock of an object that was collected is released, with a warning`, async () => {
    const seen = await evaluateOn(words, { NAVLOCK_REACH: 'process', NAVLOCK_REPORT_STACKS: '1' }, abandon);
    const { message, ...rest } = seen;
    assert.deepEqual(rest, { code: 'NAVLOCK_ABANDONED', isFree: true, lock: { name: 'db', mode: 'shared' }, name: 'NavlockWarning' });
    assert.match(message, /^the shared lock "db" was held by an object that nobody has any more.*"await using"\.\ntaken at\n.*leaveBehind/s);
  });
}

test('an object that is kept, or was released, is nothing to warn of, also while the release takes its time', async () => {
  const warnings = await evaluateOn(withCollector.node, { NAVLOCK_REACH: 'process' }, async ({ hold, locks }) => {
    const codes = [];
    process.on('warning', ({ code }) => codes.push(code));
    const kept = await hold(locks, 'kept');
    let isCollected = false;
    const registry = new FinalizationRegistry(() => (isCollected = true));
    const slow = {
      request(name, options, callback) {
        callback({ name, mode: 'exclusive' });
        return new Promise((resolve) => (slow.resolve = resolve));
      },
    };
    await (async () => {
      const released = await hold(slow, 'released');
      registry.register(released);
      released.release();
    })();
    while (!isCollected) {
      globalThis.gc();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await new Promise((resolve) => setImmediate(resolve));
    registry.unregister({}); // keeps the registry until here
    const isHeld = await locks.request('kept', { ifAvailable: true }, (lock) => lock === null);
    await kept.release();
    return [isHeld, ...codes];
  });
  assert.deepEqual(warnings, [true]);
});

test('an object whose agent has ended, as with a test file, is nothing to warn of', async () => {
  const setup = path.join(path.dirname(navlock), 'test.cjs');
  const warnings = await evaluateOn(withCollector.node, {}, async ({ hold, locks }, setup) => {
    const codes = [];
    process.on('warning', ({ code }) => codes.push(code));
    let end;
    globalThis.afterAll = (call) => (end = call);
    require(setup);
    let isCollected = false;
    const registry = new FinalizationRegistry(() => (isCollected = true));
    await (async () => registry.register(await hold(locks, 'db')))();
    end();
    while (!isCollected) {
      globalThis.gc();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await new Promise((resolve) => setImmediate(resolve));
    registry.unregister({}); // keeps the registry until here
    return codes;
  }, setup);
  assert.deepEqual(warnings, []);
});
