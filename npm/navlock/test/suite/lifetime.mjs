// Rule 28: what keeps a process or worker alive. Nothing of the suite runs in the programs, because it would keep them
// alive, too. The tests watch them from outside.

import { equal, ok, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';
import { until } from '../kit/wait.mjs';

const SPEC = '#termination-of-locks';
const needs = ['programs'];

test('a pending request keeps its process alive until it settles', {
  rules: [28], spec: SPEC, needs,
}, async ({ runProgram }) => {
  const { code, output } = await runProgram(async ({ hold, print, unreferencedTimer }) => {
    const holder = hold('db');
    await holder.granted;
    const waiter = hold('db');
    // This timer does not keep the process alive. If it fires, something else did.
    unreferencedTimer(() => holder.release(), 50);
    await waiter.granted;
    print('granted');
    waiter.release();
  }).end;
  equal(output, ['granted'], 'what the program printed');
  same(code, 0, 'its exit code');
});

test('a request that nobody awaits is served before its process ends', {
  rules: [28], spec: SPEC, needs,
}, async ({ runProgram }) => {
  const { code, output } = await runProgram(({ locks, print }) => {
    locks.request('db', () => print('granted'));
    locks.request('db', () => print('granted again'));
  }).end;
  equal(output, ['granted', 'granted again'], 'what the program printed');
  same(code, 0, 'its exit code');
});

test('a query that nobody awaits is answered before its process ends', {
  rules: [28], spec: '#api-lock-manager-query', needs,
}, async ({ runProgram }) => {
  const { code, output } = await runProgram(({ locks, print }) => {
    locks.query().then(() => print('answered'));
  }).end;
  equal(output, ['answered'], 'what the program printed');
  same(code, 0, 'its exit code');
});

test('a held lock alone does not keep its process alive', {
  rules: [28], spec: SPEC, needs,
}, async ({ runProgram }) => {
  const { code, output } = await runProgram(async ({ hold, print }) => {
    await hold('db').granted;
    print('granted');
  }).end;
  equal(output, ['granted'], 'what the program printed');
  same(code, 0, 'its exit code');
});

test('a lock manager that was only looked at does not keep its process alive', {
  rules: [28], spec: SPEC, needs,
}, async ({ runProgram }) => {
  const { code } = await runProgram(async ({ locks }) => {
    await locks.request('db', () => {});
    await locks.query();
  }).end;
  same(code, 0, 'its exit code');
});

test('an aborted request does not keep its process alive', {
  rules: [28], spec: SPEC, needs,
}, async ({ runProgram }) => {
  const { code, output } = await runProgram(async ({ hold, print }) => {
    // The lock is free: a held lock could keep the process alive, too.
    const controller = new AbortController();
    const request = hold('db', { signal: controller.signal });
    controller.abort();
    await request.ended.catch(() => print('aborted'));
  }).end;
  equal(output, ['aborted'], 'what the program printed');
  same(code, 0, 'its exit code');
});

test('a process stays alive while it waits for a lock of another process', {
  rules: [28, 27], spec: SPEC, needs: ['programs', 'processes'],
}, async ({ hold, runProgram }) => {
  const holder = hold('db');
  await holder.granted;
  const program = runProgram(async ({ locks, print, unreferencedTimer }) => {
    unreferencedTimer(() => print('alive'), 50);
    await locks.request('db', () => print('granted'));
  });
  same(await program.line(), 'alive', 'what the program prints while it waits');
  holder.release();
  same(await program.line(), 'granted', 'what the program prints then');
  same((await program.end).code, 0, 'its exit code');
});

test('a pending request keeps its worker alive until it settles', {
  rules: [28], spec: SPEC, needs: ['workers', 'death:return'],
}, async ({ hold, spawnWorker }) => {
  const worker = await spawnWorker();
  const holder = hold('db');
  await holder.granted;
  const seen = new Int32Array(new SharedArrayBuffer(8));
  await worker.run(async ({ locks, unreferencedTimer }, seen) => {
    locks.request('db', () => Atomics.store(seen, 1, 1));
    await locks.query();
    unreferencedTimer(() => Atomics.store(seen, 0, 1), 50);
  }, seen);
  let ended = false;
  worker.ended.then(() => (ended = true));
  worker.die('return');
  await until(() => ended || Atomics.load(seen, 0) === 1);
  ok(!ended, 'the worker has ended although its request is pending');
  holder.release();
  await hold('db').granted;
  same(Atomics.load(seen, 1), 1, 'the callback in the worker has run');
});
