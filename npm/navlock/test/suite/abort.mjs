// Rules 9, 18 and 19: what an abort signal does, and when it does nothing any more.

import { equal, isDOMException, ok, rejection, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';

test('the signal is ignored once the callback has begun', {
  rules: [9], spec: '#algorithm-process-request',
}, async ({ hold, isFree, settle }) => {
  const controller = new AbortController();
  const holder = hold('db', { signal: controller.signal });
  await holder.granted;
  controller.abort();
  await settle();
  same(await isFree('db'), false, 'the lock is free');
  same(await holder.release('value'), 'value', 'the value of the request');
});

test('an abort from within the callback is ignored', {
  rules: [9], spec: '#algorithm-process-request',
}, async ({ locks }) => {
  const controller = new AbortController();
  const request = locks.request('db', { signal: controller.signal }, () => {
    controller.abort();
    return 'value';
  });
  same(await request, 'value', 'the value of the request');
});

test('an abort after the end is ignored', {
  rules: [9], spec: '#algorithm-process-request',
}, async ({ hold, isFree, locks }) => {
  const controller = new AbortController();
  await locks.request('db', { signal: controller.signal }, () => {});
  const next = hold('db');
  await next.granted;
  controller.abort();
  same(await isFree('db'), false, 'the lock of the next one is free');
});

test('a long-lived signal keeps nothing of requests that were granted', {
  rules: [9], spec: 'https://dom.spec.whatwg.org/#abortsignal-remove', needs: ['listeners'],
}, async ({ abortListeners, locks }) => {
  const { signal } = new AbortController();
  for (let round = 0; round < 20; round++) await locks.request('db', { signal }, () => {});
  same(abortListeners(signal), 0, 'the number of abort listeners');
});

test('a signal keeps nothing of a request whose callback runs', {
  rules: [9], spec: 'https://dom.spec.whatwg.org/#abortsignal-remove', needs: ['listeners'],
}, async ({ abortListeners, hold }) => {
  const { signal } = new AbortController();
  await hold('db', { signal }).granted;
  same(abortListeners(signal), 0, 'the number of abort listeners');
});

test('a signal keeps nothing of requests that were refused', {
  rules: [9, 17], spec: '#api-lock-manager-request', needs: ['listeners'],
}, async ({ abortListeners, locks }) => {
  const { signal } = new AbortController();
  await rejection(locks.request('-db', { signal }, () => {}), 'a reserved name');
  await rejection(locks.request('db', { signal, steal: true }, () => {}), 'a thief with a signal');
  same(abortListeners(signal), 0, 'the number of abort listeners');
});

for (const [what, reason] of [
  ['an object', { any: 'object' }],
  ['zero', 0],
  ['the empty string', ''],
  ['null', null],
  ['false', false],
]) {
  test(`a pending request is rejected with the reason of its signal: ${what}`, {
    rules: [18], spec: '#algorithm-abort-request',
  }, async ({ hold }) => {
    await hold('db').granted;
    const controller = new AbortController();
    const waiter = hold('db', { signal: controller.signal });
    controller.abort(reason);
    same(await rejection(waiter.ended, 'the request'), reason, 'the reason');
  });

  test(`a request with a signal that has aborted is rejected with its reason: ${what}`, {
    rules: [18], spec: '#api-lock-manager-request',
  }, async ({ hold }) => {
    const waiter = hold('db', { signal: AbortSignal.abort(reason) });
    same(await rejection(waiter.ended, 'the request'), reason, 'the reason');
  });
}

test('without a reason the reason is an AbortError', {
  rules: [18], spec: 'https://dom.spec.whatwg.org/#abortsignal-signal-abort',
}, async ({ hold }) => {
  await hold('db').granted;
  const controller = new AbortController();
  const waiter = hold('db', { signal: controller.signal });
  controller.abort(undefined);
  const reason = await rejection(waiter.ended, 'the request');
  ok(isDOMException(reason, 'AbortError'), 'the reason is a DOMException AbortError');
  same(reason, controller.signal.reason, 'the reason');
});

test('a signal that times out rejects with its TimeoutError', {
  rules: [18], spec: 'https://dom.spec.whatwg.org/#dom-abortsignal-timeout',
}, async ({ hold }) => {
  await hold('db').granted;
  const signal = AbortSignal.timeout(1);
  const reason = await rejection(hold('db', { signal }).ended, 'the request');
  ok(isDOMException(reason, 'TimeoutError'), 'the reason is a DOMException TimeoutError');
  same(reason, signal.reason, 'the reason');
});

test('a dependent signal rejects with the reason of its source', {
  rules: [18], spec: 'https://dom.spec.whatwg.org/#dom-abortsignal-any',
}, async ({ hold }) => {
  await hold('db').granted;
  const controller = new AbortController();
  const waiter = hold('db', { signal: AbortSignal.any([controller.signal, new AbortController().signal]) });
  controller.abort('reason');
  same(await rejection(waiter.ended, 'the request'), 'reason', 'the reason');
});

test('one signal aborts all that wait with it', {
  rules: [18], spec: '#algorithm-abort-request',
}, async ({ hold, isFree }) => {
  const holder = hold('db');
  await holder.granted;
  const controller = new AbortController();
  const waiters = [1, 2, 3].map(() => hold('db', { signal: controller.signal }));
  controller.abort('reason');
  for (const waiter of waiters) same(await rejection(waiter.ended, 'a request'), 'reason', 'the reason');
  await holder.release();
  ok(await isFree('db'), 'the lock is free');
  ok(waiters.every((waiter) => !waiter.hasRun), 'none was called');
});

test('a promise is rejected in the turn of the abort', {
  rules: [18], spec: '#algorithm-abort-request',
}, async ({ hold }) => {
  await hold('db').granted;
  const controller = new AbortController();
  const waiter = hold('db', { signal: controller.signal });
  let rejected = false;
  waiter.ended.catch(() => (rejected = true));
  controller.abort();
  await undefined;
  await undefined;
  ok(rejected, 'the promise is rejected');
});

test('no listener of the signal can keep the abort from a request', {
  rules: [18], spec: 'https://dom.spec.whatwg.org/#run-the-abort-steps',
}, async ({ hold }) => {
  await hold('db').granted;
  const controller = new AbortController();
  controller.signal.addEventListener('abort', (event) => event.stopImmediatePropagation());
  const waiter = hold('db', { signal: controller.signal });
  controller.abort('reason');
  same(await rejection(waiter.ended, 'the request'), 'reason', 'the reason');
});

/** Says whether a listener of the signal finds that the writer, which waits with that signal, was aborted. */
async function foundByListener({ hold, locks }, listen) {
  await hold('db', { mode: 'shared' }).granted;
  const controller = new AbortController();
  const found = new Promise((resolve) => {
    const ask = () => controller.signal.addEventListener('abort', () => {
      resolve(locks.request('db', { mode: 'shared', ifAvailable: true }, (lock) => lock !== null));
    });
    listen(ask, () => void hold('db', { signal: controller.signal }));
  });
  controller.abort();
  return found;
}

test('a listener that was added after a request finds it aborted', {
  rules: [18], spec: 'https://dom.spec.whatwg.org/#run-the-abort-steps',
}, async (context) => {
  ok(await foundByListener(context, (ask, wait) => (wait(), ask())), 'a reader is let in');
});

test('a listener that was added before a request finds it aborted', {
  rules: [18], spec: 'https://dom.spec.whatwg.org/#run-the-abort-steps', needs: ['abort algorithms'],
}, async (context) => {
  ok(await foundByListener(context, (ask, wait) => (ask(), wait())), 'a reader is let in');
});

test('an aborted request is gone from the snapshot at once', {
  rules: [19], spec: '#algorithm-abort-request',
}, async ({ hold, locks }) => {
  await hold('db').granted;
  const controller = new AbortController();
  hold('db', { signal: controller.signal });
  const last = hold('db', { mode: 'shared' });
  same((await locks.query()).pending.length, 2, 'the number of those who wait');
  controller.abort();
  const { pending } = await locks.query();
  equal(pending.map(({ mode }) => mode), ['shared'], 'who waits after the abort');
  ok(!last.hasRun, 'the last one still waits');
});

test('an aborted request is gone from the snapshots of other agents', {
  rules: [19], spec: '#algorithm-abort-request', needs: ['workers'],
}, async ({ hold, locks, spawnWorker }) => {
  const worker = await spawnWorker();
  await hold('db').granted;
  const controller = new AbortController();
  hold('db', { signal: controller.signal });
  await locks.query();
  same((await worker.query()).pending.length, 1, 'the number of those who wait');
  controller.abort();
  await locks.query();
  same((await worker.query()).pending.length, 0, 'the number of those who wait after the abort');
});

test('an aborted request is not granted when the holder goes', {
  rules: [19], spec: '#algorithm-abort-request',
}, async ({ hold, settle }) => {
  const holder = hold('db');
  await holder.granted;
  const controller = new AbortController();
  const aborted = hold('db', { signal: controller.signal });
  const next = hold('db');
  controller.abort();
  holder.release();
  await next.granted;
  await settle();
  ok(!aborted.hasRun, 'who has aborted was not called');
});
