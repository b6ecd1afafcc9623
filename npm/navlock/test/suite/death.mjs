// Rules 25 to 27: what happens to the locks and requests of an agent that dies.

import { equal, ok, rejection, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';
import { task, until, withDeadline } from '../kit/wait.mjs';

const SPEC = '#termination-of-locks';
const SHARED = { mode: 'shared' };

const WAYS = [
  ['is terminated', 'terminate'],
  ['closes itself', 'close'],
  ['fails with an error that nobody catches', 'throw'],
  ['has nothing left to do', 'return'],
];

for (const [how, way] of WAYS) {
  const needs = ['workers', `death:${way}`];

  test(`when a worker ${how}, those who waited for its lock are served in order`, {
    rules: [25], spec: SPEC, needs,
  }, async ({ hold, settle, spawnWorker }) => {
    const [holder, other] = await Promise.all([spawnWorker(), spawnWorker()]);
    await (await holder.hold('db')).granted;
    const first = await other.hold('db');
    const second = hold('db');
    await settle();
    same(await first.hasRun(), false, 'the first one has run before the death');
    holder.die(way);
    ok(await first.granted, 'the first one, in another worker, has a lock');
    ok(!second.hasRun, 'the second one still waits');
    first.release();
    await second.granted;
  });
}

for (const [how, way] of WAYS.slice(0, 3)) {
  const needs = ['workers', `death:${way}`];

  test(`when a worker ${how}, what it waits for is forgotten, and who waited behind it is served`, {
    rules: [25, 1], spec: SPEC, needs,
  }, async ({ hold, locks, settle, spawnWorker }) => {
    const worker = await spawnWorker();
    await hold('db', SHARED).granted;
    await worker.hold('db');
    const reader = hold('db', SHARED);
    await settle();
    ok(!reader.hasRun, 'the reader waits behind the writer of the worker');
    worker.die(way);
    await reader.granted;
    equal((await locks.query()).pending, [], 'who waits');
  });

  test(`when a worker that holds a lock and waits for it too ${how}, the next one has it`, {
    rules: [25], spec: SPEC, needs,
  }, async ({ hold, locks, settle, spawnWorker }) => {
    const worker = await spawnWorker();
    await (await worker.hold('db')).granted;
    await worker.hold('db');
    await worker.hold('db', SHARED);
    const next = hold('db');
    await settle();
    ok(!next.hasRun, 'the next one waits');
    worker.die(way);
    await next.granted;
    const { held, pending } = await locks.query();
    same(held.length, 1, 'the number of held locks');
    same(pending.length, 0, 'the number of those who wait');
  });
}

test('a worker that dies takes only what is its own', {
  rules: [25], spec: SPEC, needs: ['workers'],
}, async ({ hold, spawnWorker }) => {
  const [mortal, other] = await Promise.all([spawnWorker(), spawnWorker()]);
  const readers = [hold('db', SHARED), await other.hold('db', SHARED), await mortal.hold('db', SHARED)];
  for (const reader of readers) await reader.granted;
  await (await mortal.hold('theirs')).granted;
  const writer = await other.hold('db');
  const heir = hold('theirs');
  same(await mortal.isFree('theirs'), false, 'what the mortal one holds is free');
  mortal.die('terminate');
  await heir.granted;
  same(await writer.hasRun(), false, 'a writer was let in although others hold');
  readers[0].release();
  await readers[1].release();
  ok(await writer.granted, 'the writer has a lock');
});

test('a request after the death of a holder finds the lock free', {
  rules: [25], spec: SPEC, needs: ['workers'],
}, async ({ hold, spawnWorker }) => {
  const worker = await spawnWorker();
  await (await worker.hold('db')).granted;
  worker.die('terminate');
  await hold('db').granted;
});

test('a thief that dies at once leaves the lock to those who wait', {
  rules: [25, 14], spec: SPEC, needs: ['workers'],
}, async ({ hold, locks, spawnWorker }) => {
  const worker = await spawnWorker();
  const victim = hold('db');
  await victim.granted;
  const waiter = hold('db');
  await locks.query();
  await (await worker.hold('db', { steal: true })).granted;
  worker.die('terminate');
  await waiter.granted;
  await rejection(victim.ended, 'the request of the victim');
});

test('many workers die, and all who wait are served', {
  rules: [25], spec: SPEC, needs: ['workers'], deadline: 15_000,
}, async ({ hold, settle, spawnWorker }) => {
  const workers = await Promise.all([1, 2, 3, 4].map(() => spawnWorker()));
  for (const worker of workers) await worker.hold('db');
  const last = hold('db');
  await settle();
  ok(!last.hasRun, 'the last one waits');
  for (const worker of workers) worker.die('terminate');
  await last.granted;
});

test('code of a terminated worker has stopped when the next holder has its lock', {
  rules: [26], spec: SPEC, needs: ['workers'], deadline: 12_000,
}, async ({ hold, locks, spawnWorker }) => {
  const worker = await spawnWorker();
  const counter = new Int32Array(new SharedArrayBuffer(4));
  worker.run(({ locks }, counter) => {
    locks.request('db', () => {
      for (;;) Atomics.add(counter, 0, 1);
    });
  }, counter).catch(() => {});
  await until(() => Atomics.load(counter, 0) > 0);
  const heir = hold('db');
  await locks.query();
  worker.die('terminate');
  // A runtime that cannot stop a busy worker must not take its lock away. Other tests show that the locks of an agent that
  // has died are granted to others.
  const granted = await withDeadline(heir.granted, 6_000).then(() => true, () => false);
  if (!granted) return;
  const then = Atomics.load(counter, 0);
  const end = performance.now() + 50;
  while (performance.now() < end) await task();
  same(Atomics.load(counter, 0), then, 'how far the dead worker has counted, 50 ms later');
});

test('when a process is killed, those who waited for its lock are served at once', {
  rules: [27, 25], spec: SPEC, needs: ['processes'],
}, async ({ hold, settle, spawnProcess }) => {
  const [holder, other] = await Promise.all([spawnProcess(), spawnProcess()]);
  await (await holder.hold('db')).granted;
  const first = await other.hold('db');
  const second = hold('db');
  await settle();
  same(await first.hasRun(), false, 'the first one has run before the death');
  const start = performance.now();
  holder.die('terminate');
  ok(await first.granted, 'the first one has a lock');
  const took = performance.now() - start;
  ok(took < 1_000, `the lock was granted after ${took.toFixed(0)} ms`);
  first.release();
  await second.granted;
});

test('when a process that waits is killed, who waited behind it is served', {
  rules: [27, 25, 1], spec: SPEC, needs: ['processes'],
}, async ({ hold, settle, spawnProcess }) => {
  const other = await spawnProcess();
  await hold('db', SHARED).granted;
  await other.hold('db');
  const reader = hold('db', SHARED);
  await settle();
  ok(!reader.hasRun, 'the reader waits behind the writer of the other process');
  other.die('terminate');
  await reader.granted;
});

for (const way of ['close', 'throw', 'return']) {
  test(`when a process ends by itself (${way}), its lock is free`, {
    rules: [27, 25], spec: SPEC, needs: ['processes'],
  }, async ({ hold, settle, spawnProcess }) => {
    const other = await spawnProcess();
    await (await other.hold('db')).granted;
    const next = hold('db');
    await settle();
    ok(!next.hasRun, 'the next one waits');
    other.die(way);
    await next.granted;
  });
}
