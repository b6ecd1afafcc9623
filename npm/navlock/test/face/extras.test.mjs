// What the module has beyond the standard: inspect() and requestMultiple().

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

import { createUserAgent, inspect, requestMultiple } from 'navlock';

import { Hold, isFree, settle } from '../kit/hold.mjs';
import { deferred } from '../kit/wait.mjs';

/** A lock manager that no other test sees. */
const open = () => createUserAgent({ reach: 'process', private: true }).locks;

test('a fencing token grows from holder to holder', async () => {
  const locks = open();
  const token = () => locks.request('db', (lock) => inspect(lock).fencingToken);
  const [first, second] = [await token(), await token()];
  assert.equal(typeof first, 'bigint');
  assert.ok(second > first);
});

test('an inspection and the error of a lost lock name the bucket', async () => {
  const { locks } = createUserAgent({ reach: 'process', private: true, bucket: '/srv/"shop"' });
  const lost = locks.request('db', async (lock) => {
    assert.equal(inspect(lock).bucket, '/srv/"shop"');
    await locks.request('db', { steal: true }, () => {});
  });
  await assert.rejects(lost, { name: 'AbortError', message: /stolen.* \(bucket "\/srv\/\\"shop\\""\)$/ });
});

test('an inspection tells the client id that snapshots have', async () => {
  const locks = open();
  await locks.request('db', async (lock) => {
    const { held } = await locks.query();
    assert.equal(inspect(lock).clientId, held[0].clientId);
  });
});

test('the victim of a theft is told by a signal, with the reason of its promise', async () => {
  const locks = open();
  const victim = new Hold(locks, 'db');
  const { lost } = inspect(await victim.granted);
  assert.equal(lost.aborted, false);
  await locks.request('db', { steal: true }, () => {});
  const reason = await victim.ended.catch((reason) => reason);
  assert.equal(reason.name, 'AbortError');
  assert.equal(lost.reason, reason);
});

test('a request made when a loss is told is called back later, also if the thief is another thread', async () => {
  const { locks } = createUserAgent({ reach: 'process' });
  const victim = new Hold(locks, 'theft');
  const { lost } = inspect(await victim.granted);
  const isInside = new Promise((resolve) => {
    lost.addEventListener('abort', () => {
      let inside = true;
      locks.request('free', () => resolve(inside));
      inside = false;
    });
  });
  const module = JSON.stringify(createRequire(import.meta.url).resolve('navlock'));
  const steal = `require(${module}).createUserAgent({ reach: 'process' }).locks.request('theft', { steal: true }, () => {})`;
  const worker = new Worker(steal, { eval: true });
  const exited = once(worker, 'exit');
  assert.equal(await isInside, false);
  await exited;
});

test('a lock that is released in time is not lost', async () => {
  const locks = open();
  const holder = new Hold(locks, 'db');
  const { lost } = inspect(await holder.granted);
  await holder.release();
  await locks.request('db', { steal: true }, () => {});
  await settle(locks);
  assert.equal(lost.aborted, false);
});

test('a lock that is over can be inspected if it was before', async () => {
  const locks = open();
  let [seen, unseen, token] = [];
  await locks.request('db', (lock) => {
    seen = lock;
    token = inspect(lock).fencingToken;
  });
  await locks.request('db', (lock) => void (unseen = lock));
  assert.equal(inspect(seen).fencingToken, token);
  assert.throws(() => inspect(unseen), { name: 'InvalidStateError' });
});

test('only locks can be inspected', () => {
  for (const value of [undefined, null, {}, { name: 'db', mode: 'shared' }]) assert.throws(() => inspect(value), TypeError);
});

test('several locks come in the order of the names that were given', async () => {
  const locks = open();
  const result = await requestMultiple(locks, ['b', 'a', 'b'], async (all) => {
    assert.equal(all[0], all[2]);
    const { held } = await locks.query();
    assert.equal(held.length, 2);
    return all.map(({ name, mode }) => `${name} ${mode}`);
  });
  assert.deepEqual(result, ['b exclusive', 'a exclusive', 'b exclusive']);
  assert.ok((await isFree(locks, 'a')) && (await isFree(locks, 'b')));
});

test('several locks are taken in the order of their code units', async () => {
  const locks = open();
  // These two names are in the order of code units. By code points the order would be the other way round.
  const [first, last] = ['\u{1f600}', '\uffff'];
  const holder = new Hold(locks, first);
  const request = requestMultiple(locks, [last, first], { mode: 'shared' }, () => 'value');
  await settle(locks);
  assert.ok(await isFree(locks, last));
  holder.release();
  assert.equal(await request, 'value');
});

test('requests for several locks in any order do not block each other', async () => {
  const locks = open();
  const rounds = [['a', 'b', 'c'], ['c', 'b', 'a'], ['b', 'c', 'a']];
  const all = Array.from({ length: 60 }, (_, index) => requestMultiple(locks, rounds[index % 3], async () => {
    assert.equal((await locks.query()).held.length, 3);
  }));
  await Promise.all(all);
});

test('nothing is held if one of several locks is not available', async () => {
  const locks = open();
  new Hold(locks, 'b');
  const given = await requestMultiple(locks, ['a', 'b', 'c'], { ifAvailable: true }, async (all) => {
    assert.ok(await isFree(locks, 'a'));
    return all;
  });
  assert.equal(given, null);
});

test('an abort while one of several locks is waited for gives the others back', async () => {
  const locks = open();
  const holder = new Hold(locks, 'b');
  const controller = new AbortController();
  const request = requestMultiple(locks, ['a', 'b'], { signal: controller.signal }, () => assert.fail('it was called'));
  await settle(locks);
  assert.equal(await isFree(locks, 'a'), false);
  controller.abort('reason');
  assert.equal(await request.catch((reason) => reason), 'reason');
  assert.ok(await isFree(locks, 'a'));
  assert.deepEqual((await locks.query()).pending, []);
  await holder.release();
});

test('a theft while others are waited for gives all back', async () => {
  const locks = open();
  const holder = new Hold(locks, 'b');
  const rejected = assert.rejects(requestMultiple(locks, ['a', 'b'], () => assert.fail('it was called')), { name: 'AbortError' });
  await settle(locks);
  await locks.request('a', { steal: true }, () => {});
  await rejected;
  assert.deepEqual((await locks.query()).pending, []);
  await holder.release();
});

test('a theft while all are held is told at once, and the rest is held until the callback ends', async () => {
  const locks = open();
  let end;
  const begun = deferred();
  const request = requestMultiple(locks, ['a', 'b'], () => {
    begun.resolve();
    return new Promise((resolve) => (end = resolve));
  });
  const rejected = assert.rejects(request, { name: 'AbortError' });
  await begun.promise;
  await locks.request('a', { steal: true }, () => {});
  await rejected;
  assert.equal(await isFree(locks, 'b'), false);
  end();
  await settle(locks);
  assert.ok(await isFree(locks, 'b'));
});

test('several locks are free when the callback has failed', async () => {
  const locks = open();
  for (const callback of [() => { throw new Error('as planned'); }, async () => { throw new Error('as planned'); }]) {
    await assert.rejects(requestMultiple(locks, ['a', 'b'], callback), { message: 'as planned' });
    assert.ok((await isFree(locks, 'a')) && (await isFree(locks, 'b')));
  }
});

test('no names are no locks, and the callback still runs later', async () => {
  const locks = open();
  let returned = false;
  const request = requestMultiple(locks, [], (all) => [returned, all.length]);
  returned = true;
  assert.deepEqual(await request, [true, 0]);
});

test('wrong arguments are refused before any lock is taken', async () => {
  const locks = open();
  const nothing = () => {};
  const signal = AbortSignal.abort('reason');
  for (const [call, expected] of [
    [() => requestMultiple({}, ['a'], nothing), { name: 'TypeError' }],
    [() => requestMultiple(locks, 'ab', nothing), { name: 'TypeError' }],
    [() => requestMultiple(locks, 5, nothing), { name: 'TypeError' }],
    [() => requestMultiple(locks, ['a', Symbol('b')], nothing), { name: 'TypeError' }],
    [() => requestMultiple(locks, ['a']), { name: 'TypeError' }],
    [() => requestMultiple(locks, ['a'], { mode: 'none' }, nothing), { name: 'TypeError' }],
    [() => requestMultiple(locks, ['a', '-b'], nothing), { name: 'NotSupportedError' }],
    [() => requestMultiple(locks, ['a'], { steal: true }, nothing), { name: 'NotSupportedError' }],
    [() => requestMultiple(locks, ['a'], { signal }, nothing).catch((reason) => { throw new Error(reason); }), { message: 'reason' }],
  ]) {
    const holder = new Hold(locks, 'a');
    await assert.rejects(call(), expected);
    assert.deepEqual((await locks.query()).pending, []);
    await holder.release();
  }
});
