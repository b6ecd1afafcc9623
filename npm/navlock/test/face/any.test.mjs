// requestAny(): one of several locks.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createUserAgent, requestAny } from 'navlock';

import { Hold, isFree, settle } from '../kit/hold.mjs';

/** A lock manager that no other test sees. */
const open = () => createUserAgent({ reach: 'process', private: true }).locks;

const NAMES = ['db-1', 'db-2', 'db-3'];

test('calls take the names that are free, and the next gets the first that is freed', async () => {
  const locks = open();
  const ends = {};
  const work = (lock) => new Promise((resolve) => (ends[lock.name] = () => resolve(`${lock.name} ${lock.mode}`)));
  const first = NAMES.map(() => requestAny(locks, NAMES, work));
  await settle(locks);
  assert.deepEqual(Object.keys(ends), NAMES);
  const last = requestAny(locks, NAMES, { mode: 'shared' }, ({ name, mode }) => `${name} ${mode}`);
  await settle(locks);
  assert.equal((await locks.query()).pending.length, 3);

  ends['db-2']();
  assert.equal(await first[1], 'db-2 exclusive');
  assert.equal(await last, 'db-2 shared');
  assert.deepEqual((await locks.query()).pending, []);
  assert.ok(await isFree(locks, 'db-2'));
  ends['db-1']();
  ends['db-3']();
  await Promise.all(first);
  assert.deepEqual((await locks.query()).held, []);
});

test('of two grants in one turn, one is given back before the callback ends, and nobody loses a place', async () => {
  const locks = open();
  const holders = [new Hold(locks, 'a'), new Hold(locks, 'b')];
  await settle(locks);
  let end;
  const request = requestAny(locks, ['a', 'b'], (lock) => new Promise((resolve) => (end = () => resolve(lock.name))));
  const order = [];
  const next = ['b', 'b'].map((name, place) => locks.request(name, () => order.push(place)));
  for (const holder of holders) holder.release();
  await Promise.all(next);
  assert.deepEqual(order, [0, 1]);
  end();
  assert.equal(await request, 'a');
  assert.ok((await isFree(locks, 'a')) && (await isFree(locks, 'b')));
});

test('an abort leaves all queues, and a theft of the lock is told', async () => {
  const locks = open();
  const holders = [new Hold(locks, 'a'), new Hold(locks, 'b')];
  const controller = new AbortController();
  const request = requestAny(locks, ['a', 'b'], { signal: controller.signal }, () => assert.fail('it was called'));
  await settle(locks);
  controller.abort('reason');
  assert.equal(await request.catch((reason) => reason), 'reason');
  assert.deepEqual((await locks.query()).pending, []);
  await Promise.all(holders.map((holder) => holder.release()));

  const robbed = requestAny(locks, ['a', 'b'], (lock) => locks.request(lock.name, { steal: true }, () => {}));
  await assert.rejects(robbed, { name: 'AbortError' });
});

test('with ifAvailable, one is had at once, or the callback gets null', async () => {
  const locks = open();
  const one = () => requestAny(locks, ['a', 'b'], { ifAvailable: true }, (lock) => lock?.name ?? lock);
  const a = new Hold(locks, 'a');
  await settle(locks);
  assert.equal(await one(), 'b');
  const b = new Hold(locks, 'b');
  await settle(locks);
  assert.equal(await one(), null);
  await Promise.all([a.release(), b.release()]);
});

test('the lock is free when the callback has failed', async () => {
  const locks = open();
  const callback = () => { throw new Error('as planned'); };
  await assert.rejects(requestAny(locks, ['a', 'b'], callback), { message: 'as planned' });
  assert.ok((await isFree(locks, 'a')) && (await isFree(locks, 'b')));
});

test('wrong arguments are refused before any lock is asked for', async () => {
  const locks = open();
  const holder = new Hold(locks, 'a');
  for (const [call, expected] of [
    [() => requestAny({}, ['a'], () => {}), { name: 'TypeError' }],
    [() => requestAny(locks, [], () => {}), { name: 'TypeError' }],
    [() => requestAny(locks, 'ab', () => {}), { name: 'TypeError' }],
    [() => requestAny(locks, ['a', '-b'], () => {}), { name: 'NotSupportedError' }],
    [() => requestAny(locks, ['a'], { steal: true }, () => {}), { name: 'NotSupportedError' }],
  ]) {
    await assert.rejects(call(), expected);
    assert.deepEqual((await locks.query()).pending, []);
  }
  await holder.release();
});
