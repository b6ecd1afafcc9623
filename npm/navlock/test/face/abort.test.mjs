// What the suite cannot ask of every implementation: how signals and asynchronous contexts are kept.

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';

import { createUserAgent } from 'navlock';

import { Hold, settle } from '../kit/hold.mjs';

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

test('those that wait with one signal are rejected in the order of their requests, whoever is served between', async () => {
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
