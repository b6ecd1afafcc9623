// Signals and asynchronous contexts: what of them is kept in memory. The suite cannot ask this of every implementation.

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';

import { createUserAgent } from 'navlock';

import { Hold, settle } from '../kit/hold.mjs';
import { openPlace } from '../kit/place.mjs';

/** A lock manager that no other test sees, of this reach. */
function openReach(context, reach) {
  if (reach === 'process') return open();
  const { socket, remove } = openPlace();
  context.after(remove);
  return createUserAgent({ reach, socket }).locks;
}

const open = () => createUserAgent({ reach: 'process', private: true }).locks;

test('many waiters with one signal are one listener, as long as one of them waits', async () => {
  const locks = open();
  const { signal } = new AbortController();
  const holder = new Hold(locks, 'db');
  const waiters = Array.from({ length: 100 }, () => locks.request('db', { signal }, () => {}));
  assert.equal(getEventListeners(signal, 'abort').length, 1);
  await holder.release();
  await Promise.all(waiters);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('waiters with one signal are rejected in the order of their requests, whichever request is served between', async () => {
  const locks = open();
  const controller = new AbortController();
  const { signal } = controller;
  const order = [];
  const holders = ['a', 'b', 'c'].map((name) => new Hold(locks, name));
  for (const name of ['a', 'b', 'c', 'a']) {
    locks.request(name, { signal }, () => {}).then(() => order.push(`${name} served`), () => order.push(`${name} aborted`));
  }
  await holders[1].release();
  await settle(locks);
  controller.abort();
  await settle(locks);
  assert.deepEqual(order, ['b served', 'a aborted', 'c aborted', 'a aborted']);
});

test('a listener that makes and aborts requests while others are aborted does no harm', async () => {
  const locks = open();
  const controller = new AbortController();
  const holder = new Hold(locks, 'db');
  const outcomes = [];
  const ask = (signal) => locks.request('db', { signal }, () => {}).then(() => outcomes.push('served'), (reason) => outcomes.push(reason));
  ask(controller.signal);
  controller.signal.addEventListener('abort', () => {
    const other = new AbortController();
    ask(other.signal);
    other.abort('inner');
    ask(controller.signal);
  });
  ask(controller.signal);
  controller.abort('outer');
  await settle(locks);
  assert.deepEqual(outcomes.sort(), ['inner', 'outer', 'outer', 'outer']);
  await holder.release();
});

test('an event that a program dispatches aborts nothing, and the signal still does', async () => {
  const locks = open();
  const controller = new AbortController();
  const { signal } = controller;
  const holder = new Hold(locks, 'db');
  const outcomes = ['first', 'second'].map((name) => locks.request('db', { signal }, () => name).catch((reason) => reason));
  signal.dispatchEvent(new Event('abort'));
  await settle(locks);
  assert.equal((await locks.query()).pending.length, 2);
  controller.abort('reason');
  assert.deepEqual(await Promise.all(outcomes), ['reason', 'reason']);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  await holder.release();
});

test('a callback runs in the asynchronous context of its request', async () => {
  const locks = open();
  const context = new AsyncLocalStorage();
  const ask = (name) => context.run(name, () => locks.request('db', async () => {
    await undefined;
    return context.getStore();
  }));
  const holder = context.run('holder', () => new Hold(locks, 'db'));
  const waiters = ['one', 'two'].map(ask);
  await context.run('releaser', () => holder.release());
  assert.deepEqual(await Promise.all(waiters), ['one', 'two']);
  assert.equal(await ask('three'), 'three');
});

/** Changes a signal as a program may: from then on Node throws when a listener is added or removed, or on an abort. */
const spoil = (signal) => (signal.constructor = undefined);

for (const reach of ['process', 'machine']) {
  test(`a signal that does not let itself be listened to is refused, and disturbs nobody, reach ${reach}`, async (context) => {
    const locks = openReach(context, reach);
    const { signal } = new AbortController();
    spoil(signal);
    for (let time = 0; time < 2; time++) {
      await assert.rejects(locks.request('db', { signal }, () => {}), { name: 'TypeError', message: /does not let itself be listened to/ });
    }
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
    assert.equal(await locks.request('db', () => 'served'), 'served');
  });

  test(`a signal that is spoilt while a request waits holds nothing up, reach ${reach}`, async (context) => {
    const locks = openReach(context, reach);
    const { signal } = new AbortController();
    const holder = new Hold(locks, 'db');
    await holder.granted;
    const waiter = locks.request('db', { signal }, () => 'served');
    const next = locks.request('db', () => 'served');
    spoil(signal);
    await holder.release();
    assert.deepEqual(await Promise.all([waiter, next]), ['served', 'served']);
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });

  test(`a waiter that is not told of its abort is not called, and holds nothing up, reach ${reach}`, async (context) => {
    const locks = openReach(context, reach);
    const controller = new AbortController();
    const holder = new Hold(locks, 'db');
    await holder.granted;
    const waiter = locks.request('db', { signal: controller.signal }, () => 'called').catch((reason) => reason);
    const next = locks.request('db', () => 'served');
    spoil(controller.signal);
    assert.throws(() => controller.abort('reason'));
    await holder.release();
    assert.equal(await waiter, 'reason');
    assert.equal(await next, 'served');
  });
}
