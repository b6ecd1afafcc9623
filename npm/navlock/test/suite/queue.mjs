// Rules 1 to 4 and 6: who is served, and when.

import { equal, ok, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';

const SHARED = { mode: 'shared' };

test('aborting a waiting writer lets the reader behind it in', {
  rules: [1], spec: '#algorithm-abort-request',
}, async ({ hold, settle }) => {
  const reader = hold('db', SHARED);
  const controller = new AbortController();
  const writer = hold('db', { signal: controller.signal });
  const second = hold('db', SHARED);
  await reader.granted;
  await settle();
  ok(!writer.hasRun && !second.hasRun, 'the writer waits for the reader, the second reader for the writer');

  controller.abort();
  await second.granted;
  ok(!writer.hasRun, 'who aborted is never called');
});

test('aborting a writer in the middle of the queue changes nothing for those before it', {
  rules: [1, 3], spec: '#algorithm-abort-request',
}, async ({ hold, settle }) => {
  const holder = hold('db');
  const first = hold('db');
  const controller = new AbortController();
  const middle = hold('db', { signal: controller.signal });
  const last = hold('db');
  await holder.granted;
  controller.abort();
  await settle();
  ok(!first.hasRun && !middle.hasRun && !last.hasRun, 'the holder still holds');
  holder.release();
  await first.granted;
  await settle();
  ok(!last.hasRun, 'the last one waits for the first');
  first.release();
  await last.granted;
});

test('aborting a waiting writer lets the reader of another agent in', {
  rules: [1], spec: '#algorithm-abort-request', needs: ['workers'],
}, async ({ hold, spawnWorker }) => {
  const worker = await spawnWorker();
  const reader = hold('db', SHARED);
  await reader.granted;
  const controller = new AbortController();
  const writer = hold('db', { signal: controller.signal });
  const second = await worker.hold('db', SHARED);
  same(await second.hasRun(), false, 'the reader behind the writer has run');
  controller.abort();
  ok(await second.granted, 'the reader behind the aborted writer has a lock');
  ok(!writer.hasRun, 'who aborted is never called');
});

test('a reader that takes only what is available does not overtake a waiting writer', {
  rules: [2], spec: '#concept-lock-request',
}, async ({ hold }) => {
  const reader = hold('db', SHARED);
  await reader.granted;
  const writer = hold('db');
  const taker = hold('db', { mode: 'shared', ifAvailable: true });
  same(await taker.granted, null, 'what the callback is given');
  ok(!writer.hasRun, 'the writer still waits');
});

test('a writer that takes only what is available gets null while a reader holds', {
  rules: [2], spec: '#algorithm-request-lock',
}, async ({ hold }) => {
  const reader = hold('db', SHARED);
  await reader.granted;
  same(await hold('db', { ifAvailable: true }).granted, null, 'what the callback is given');
});

test('a reader that takes only what is available joins other readers', {
  rules: [2], spec: '#algorithm-request-lock',
}, async ({ hold }) => {
  await hold('db', SHARED).granted;
  const taker = hold('db', { mode: 'shared', ifAvailable: true });
  same((await taker.granted)?.mode, 'shared', 'the mode of the lock');
});

test('asking for what is available leaves nothing in the queue', {
  rules: [2], spec: '#algorithm-request-lock',
}, async ({ hold, locks }) => {
  const holder = hold('db');
  await holder.granted;
  const taker = hold('db', { ifAvailable: true });
  await taker.granted;
  equal((await locks.query()).pending, [], 'who waits');
  taker.release();
  await taker.ended;
  holder.release();
  ok((await hold('db').granted) !== null, 'the next one has the lock');
});

test('a writer in another agent is not overtaken by a reader that takes only what is available', {
  rules: [2, 3], spec: '#concept-lock-request', needs: ['workers'],
}, async ({ hold, spawnWorker }) => {
  const worker = await spawnWorker();
  await hold('db', SHARED).granted;
  await worker.hold('db');
  same(await hold('db', { mode: 'shared', ifAvailable: true }).granted, null, 'what the callback is given');
});

test('a reader does not overtake a waiting writer', {
  rules: [3], spec: '#concept-lock-request',
}, async ({ hold, settle }) => {
  const first = hold('db', SHARED);
  await first.granted;
  const writer = hold('db');
  const second = hold('db', SHARED);
  await settle();
  ok(!second.hasRun, 'the second reader waits behind the writer');
  first.release();
  await writer.granted;
  await settle();
  ok(!second.hasRun, 'the second reader waits for the writer');
  writer.release();
  await second.granted;
});

test('a reader does not overtake a writer that waits in another agent', {
  rules: [3], spec: '#concept-lock-request', needs: ['workers'],
}, async ({ hold, settle, spawnWorker }) => {
  const worker = await spawnWorker();
  const first = hold('db', SHARED);
  await first.granted;
  const writer = await worker.hold('db');
  const second = hold('db', SHARED);
  await settle();
  ok(!second.hasRun, 'the reader waits behind the writer of the other agent');
  same(await writer.hasRun(), false, 'the writer has run');
  first.release();
  ok(await writer.granted, 'the writer has a lock');
  writer.release();
  await second.granted;
});

test('agents are served in the order in which they asked', {
  rules: [3], spec: '#algorithm-process-request', needs: ['workers'],
}, async ({ hold, spawnWorker }) => {
  const [one, two] = await Promise.all([spawnWorker(), spawnWorker()]);
  const holder = hold('db');
  await holder.granted;
  const waiters = [
    await one.hold('db'), await two.hold('db'), await one.hold('db'), await two.hold('db'),
  ];
  const order = [];
  const served = waiters.map(async (waiter, index) => {
    await waiter.granted;
    order.push(index);
    await waiter.release();
  });
  await holder.release();
  await Promise.all(served);
  equal(order, [0, 1, 2, 3], 'the order of the grants');
});

test('processes are served in the order in which they asked', {
  rules: [3], spec: '#algorithm-process-request', needs: ['processes'],
}, async ({ hold, spawnProcess }) => {
  const [one, two] = await Promise.all([spawnProcess(), spawnProcess()]);
  const holder = hold('db', SHARED);
  await holder.granted;
  const writer = await one.hold('db');
  const reader = await two.hold('db', SHARED);
  same(await reader.hasRun(), false, 'the reader has overtaken the writer');
  holder.release();
  await writer.granted;
  same(await reader.hasRun(), false, 'the reader shares with the writer');
  writer.release();
  ok(await reader.granted, 'the reader has a lock');
});

test('an exclusive lock excludes other agents', {
  rules: [3], spec: '#modes-scheduling', needs: ['workers'],
}, async ({ hold, isFree, spawnWorker }) => {
  const worker = await spawnWorker();
  await hold('mine').granted;
  await (await worker.hold('theirs')).granted;
  same(await worker.isFree('mine'), false, 'what this agent holds is free for the other');
  same(await isFree('theirs'), false, 'what the other agent holds is free for this one');
  same(await isFree('theirs', 'shared'), false, 'it is free for readers');
});

test('readers of several agents hold together', {
  rules: [4], spec: '#modes-scheduling', needs: ['workers'],
}, async ({ hold, spawnWorker }) => {
  const worker = await spawnWorker();
  await hold('db', SHARED).granted;
  ok(await (await worker.hold('db', SHARED)).granted, 'the other agent has a lock too');
});

test('readers at the head of the queue are granted together', {
  rules: [4], spec: '#algorithm-process-request',
}, async ({ hold, settle }) => {
  const writer = hold('db');
  await writer.granted;
  const readers = [hold('db', SHARED), hold('db', SHARED), hold('db', SHARED)];
  const next = hold('db');
  const late = hold('db', SHARED);
  writer.release();
  await Promise.all(readers.map((reader) => reader.granted));
  await settle();
  ok(!next.hasRun && !late.hasRun, 'the next writer stops the row of readers');
});

test('a writer waits for the last of the readers', {
  rules: [4], spec: '#concept-lock-request',
}, async ({ hold, settle }) => {
  const readers = [hold('db', SHARED), hold('db', SHARED)];
  const writer = hold('db');
  await Promise.all(readers.map((reader) => reader.granted));
  await readers[0].release();
  await settle();
  ok(!writer.hasRun, 'one reader still holds');
  readers[1].release();
  await writer.granted;
});

test('names do not wait for each other', {
  rules: [6], spec: '#resource-names',
}, async ({ hold }) => {
  await hold('one').granted;
  hold('one');
  await hold('two').granted;
  await hold('One').granted;
  await hold('').granted;
});
