// Rule 8: an abort between the grant and the callback, and at every other moment.

import { ok, rejection, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';
import { microtasks, spinUntil, task } from '../kit/wait.mjs';

const SPEC = '#algorithm-process-request';

test('an abort in the turn of a request for a free lock wins over the grant', {
  rules: [8], spec: SPEC,
}, async ({ hold, settle }) => {
  const controller = new AbortController();
  const request = hold('db', { signal: controller.signal });
  const next = hold('db');
  controller.abort('reason');
  // Where the abort is lost, the request is granted and never ends.
  await Promise.race([request.ended, request.granted]).catch(() => {});
  ok(!request.hasRun, 'who has aborted was not called');
  same(await rejection(request.ended, 'the request'), 'reason', 'the reason');
  await next.granted;
  await settle();
  ok(!request.hasRun, 'who has aborted was not called later');
});

for (const [order, act] of [
  ['the holder releases and then the signal aborts', (holder, controller) => {
    holder.release();
    controller.abort('reason');
  }],
  ['the signal aborts and then the holder releases', (holder, controller) => {
    controller.abort('reason');
    holder.release();
  }],
]) {
  test(`in one turn, ${order}: the next one is served`, { rules: [8], spec: SPEC }, async ({ hold, settle }) => {
    const holder = hold('db');
    await holder.granted;
    const controller = new AbortController();
    const waiter = hold('db', { signal: controller.signal });
    const next = hold('db');
    act(holder, controller);
    same(await rejection(waiter.ended, 'the request'), 'reason', 'the reason');
    await next.granted;
    await settle();
    ok(!waiter.hasRun, 'who has aborted was not called');
  });
}

/** Aborts when `moment` has come, and checks that either all or nothing happened. */
async function abortAt({ isFree, locks, settle }, name, act, moment, label) {
  const controller = new AbortController();
  let called = false;
  const request = locks.request(name, { signal: controller.signal }, () => {
    called = true;
    return 'value';
  });
  const outcome = request.then((value) => ({ value }), (reason) => ({ reason }));
  act();
  await moment();
  controller.abort('reason');
  const { value, reason } = await outcome;
  await settle();
  if (called) same(value, 'value', `${label}: the value of a request whose callback ran`);
  else same(reason, 'reason', `${label}: the reason of a request whose callback did not run`);
  ok(await isFree(name), `${label}: the lock is free afterwards`);
}

test('whenever a request for a free lock is aborted, all of it happens or nothing', {
  rules: [8], spec: SPEC,
}, async (context) => {
  for (let count = 0; count < 40; count++) {
    await abortAt(context, `microtask ${count}`, () => {}, () => microtasks(count), `abort after ${count} microtasks`);
  }
  for (let count = 0; count < 10; count++) {
    await abortAt(context, `task ${count}`, () => {}, () => tasks(count), `abort after ${count} tasks`);
  }
});

test('whenever a request is aborted after the release of its holder, all of it happens or nothing', {
  rules: [8], spec: SPEC,
}, async (context) => {
  for (const [unit, wait, most] of [['microtasks', microtasks, 40], ['tasks', tasks, 10]]) {
    for (let count = 0; count < most; count++) {
      const name = `${unit} ${count}`;
      const holder = context.hold(name);
      await holder.granted;
      await abortAt(context, name, () => holder.release(), () => wait(count), `abort after ${count} ${unit}`);
    }
  }
});

async function tasks(count) {
  for (let turn = 0; turn < count; turn++) await task();
}

test('an abort after a grant that this agent has not seen yet gives the lock to the next one', {
  rules: [8], spec: SPEC, needs: ['workers'],
}, async ({ hold, locks, settle, spawnWorker }) => {
  const worker = await spawnWorker();
  const holder = await worker.hold('db');
  await holder.granted;
  const controller = new AbortController();
  const waiter = hold('db', { signal: controller.signal });
  await locks.query();
  const next = await worker.hold('db');

  // The worker releases while this agent's event loop stands still. When its request has settled,
  // the lock is this agent's, and the callback has not run.
  const seen = new Int32Array(new SharedArrayBuffer(4));
  const watching = worker.run(async ({ holds, locks }, seen) => {
    await holds[0].release();
    await locks.query();
    Atomics.store(seen, 0, 1);
  }, seen);
  watching.catch(() => {});
  spinUntil(() => Atomics.load(seen, 0) === 1, 'the other agent did not release');
  controller.abort('reason');

  same(await rejection(waiter.ended, 'the request'), 'reason', 'the reason');
  ok(await next.granted, 'the next one has a lock');
  await settle();
  ok(!waiter.hasRun, 'who has aborted was not called');
});
