// Rules 14 to 16: steal.

import { equal, ok, rejectsWithDOMException, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';

const SHARED = { mode: 'shared' };
const STEAL = { steal: true };
const SPEC = '#algorithm-request-lock';

test('all holders lose to a thief', { rules: [14], spec: SPEC }, async ({ hold, locks }) => {
  const readers = [hold('db', SHARED), hold('db', SHARED)];
  await Promise.all(readers.map((reader) => reader.granted));
  const thief = hold('db', STEAL);
  await thief.granted;
  for (const reader of readers) {
    await rejectsWithDOMException(reader.ended, 'AbortError', 'the request of a victim');
  }
  const { held } = await locks.query();
  equal(held.map(({ name, mode }) => [name, mode]), [['db', 'exclusive']], 'what is held');
});

test('a thief goes before all who wait, and they keep their order', { rules: [14], spec: SPEC }, async ({ hold, settle }) => {
  const holder = hold('db');
  await holder.granted;
  const [first, second] = [hold('db'), hold('db')];
  const thief = hold('db', STEAL);
  await thief.granted;
  await settle();
  ok(!first.hasRun && !second.hasRun, 'those who waited still wait');
  thief.release();
  await first.granted;
  await settle();
  ok(!second.hasRun, 'the second waits for the first');
  first.release();
  await second.granted;
});

test('a thief of a free lock gets it', { rules: [14], spec: SPEC }, async ({ hold }) => {
  const thief = hold('db', STEAL);
  same((await thief.granted).mode, 'exclusive', 'the mode of the lock');
  same(await thief.release('value'), 'value', 'the value');
});

test('the victims are rejected before the thief is called back', { rules: [14], spec: SPEC }, async ({ hold, locks }) => {
  for (let round = 0; round < 50; round++) {
    const readers = [hold('db', SHARED), hold('db', SHARED)];
    await Promise.all(readers.map((reader) => reader.granted));
    let rejected = 0;
    for (const reader of readers) reader.ended.catch(() => rejected++);
    await locks.request('db', STEAL, () => same(rejected, 2, 'the number of victims that know it'));
  }
});

test('a thief takes nothing of other names', { rules: [14], spec: SPEC }, async ({ hold }) => {
  const other = hold('other');
  await other.granted;
  await hold('db', STEAL).granted;
  same(await other.release('kept'), 'kept', 'the value of the request that holds another name');
});

test('a victim is rejected although its callback never ends', { rules: [14], spec: SPEC }, async ({ hold, locks }) => {
  const victim = locks.request('db', () => new Promise(() => {}));
  victim.catch(() => {});
  hold('db', STEAL);
  await rejectsWithDOMException(victim, 'AbortError', 'the request of the victim');
});

test('a lock is stolen from another agent', {
  rules: [14], spec: SPEC, needs: ['workers'],
}, async ({ hold, spawnWorker }) => {
  const worker = await spawnWorker();
  const victim = await worker.hold('db');
  await victim.granted;
  const outcome = worker.run(async ({ holds }) => {
    const reason = await holds[0].ended.catch((reason) => reason);
    return { name: reason.name, dom: reason instanceof DOMException };
  });
  const thief = hold('db', STEAL);
  await thief.granted;
  equal(await outcome, { name: 'AbortError', dom: true }, 'the reason of the victim');
});

test('another agent steals', {
  rules: [14], spec: SPEC, needs: ['workers'],
}, async ({ hold, settle, spawnWorker }) => {
  const worker = await spawnWorker();
  const victim = hold('db');
  await victim.granted;
  const waiter = hold('db');
  const thief = await worker.hold('db', STEAL);
  await rejectsWithDOMException(victim.ended, 'AbortError', 'the request of the victim');
  ok(await thief.granted, 'the thief has a lock');
  await settle();
  ok(!waiter.hasRun, 'who waited still waits');
  thief.release();
  await waiter.granted;
});

test('another process steals', {
  rules: [14], spec: SPEC, needs: ['processes'],
}, async ({ hold, spawnProcess }) => {
  const other = await spawnProcess();
  const victim = hold('db');
  await victim.granted;
  const thief = await other.hold('db', STEAL);
  await rejectsWithDOMException(victim.ended, 'AbortError', 'the request of the victim');
  ok(await thief.granted, 'the thief has a lock');
});

test('a victim that ends later does not release the lock of the thief', {
  rules: [15], spec: '#algorithm-release-lock',
}, async ({ hold, isFree, settle }) => {
  const victim = hold('db');
  await victim.granted;
  const thief = hold('db', STEAL);
  await thief.granted;
  const next = hold('db');
  victim.release();
  await settle();
  ok(!next.hasRun, 'the thief still holds');
  await thief.release();
  await next.granted;
  same(await isFree('db'), false, 'the lock is free');
});

test('a victim that ends later stays rejected', {
  rules: [15], spec: SPEC,
}, async ({ hold, settle }) => {
  const victim = hold('db');
  await victim.granted;
  await hold('db', STEAL).granted;
  victim.release('value');
  await settle();
  await rejectsWithDOMException(victim.ended, 'AbortError', 'the request of the victim');
});

test('a victim that ends in the moment of the theft does no harm', {
  rules: [15], spec: SPEC,
}, async ({ hold, isFree, settle }) => {
  const victim = hold('db');
  await victim.granted;
  const thief = hold('db', STEAL);
  victim.release();
  await thief.granted;
  await settle();
  same(await isFree('db'), false, 'the lock is free');
});

test('of two thieves the last one wins', { rules: [15], spec: SPEC }, async ({ hold, isFree, locks }) => {
  const holder = hold('db');
  await holder.granted;
  const first = hold('db', STEAL);
  await first.granted;
  const last = hold('db', STEAL);
  await last.granted;
  await rejectsWithDOMException(holder.ended, 'AbortError', 'the request of the holder');
  await rejectsWithDOMException(first.ended, 'AbortError', 'the request of the first thief');
  same((await locks.query()).held.length, 1, 'the number of held locks');
  await last.release();
  ok(await isFree('db'), 'the lock is free');
});

test('of two thieves in the same turn the last one wins', {
  rules: [15], spec: SPEC,
}, async ({ hold, isFree, settle }) => {
  const first = hold('db', STEAL);
  const last = hold('db', STEAL);
  await last.granted;
  first.release();
  await settle();
  await rejectsWithDOMException(first.ended, 'AbortError', 'the request of the first thief');
  same(await isFree('db'), false, 'the lock is free');
});

test('a victim whose callback has not begun is rejected and its callback never runs', {
  rules: [16], spec: SPEC, needs: ['navlock'],
}, async ({ hold, settle }) => {
  const victim = hold('db');
  const thief = hold('db', STEAL);
  // If another process answers, both answers have come before either is read: otherwise the callback may have begun.
  const since = Date.now();
  while (Date.now() - since < 200);
  await thief.granted;
  await settle();
  ok(!victim.hasRun, 'the callback of the victim has not run');
  await rejectsWithDOMException(victim.ended, 'AbortError', 'the request of the victim');
});
