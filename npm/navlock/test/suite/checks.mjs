// Rule 17: which arguments are refused, and in which order they are checked.

import { answersWithPromise, rejectsWithDOMException, rejectsWithTypeError, rejection, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';

const SPEC = '#api-lock-manager-request';
const nothing = () => {};

for (const [what, name, options] of [
  ['a reserved name', '-db', {}],
  ['steal with ifAvailable', 'db', { steal: true, ifAvailable: true }],
  ['steal with the mode shared', 'db', { steal: true, mode: 'shared' }],
  ['a signal with steal', 'db', { steal: true, signal: new AbortController().signal }],
  ['a signal with ifAvailable', 'db', { ifAvailable: true, signal: new AbortController().signal }],
]) {
  test(`${what} is not supported, and leaves nothing behind`, { rules: [17], spec: SPEC }, async ({ locks }) => {
    let called = false;
    const promise = answersWithPromise(() => locks.request(name, options, () => (called = true)), what);
    await rejectsWithDOMException(promise, 'NotSupportedError', what);
    const { held, pending } = await locks.query();
    same(held.length + pending.length, 0, 'the number of locks and requests');
    same(called, false, 'the callback was called');
  });
}

for (const [what, name, options] of [
  ['a reserved name', '-db', {}],
  ['a reserved name with steal and ifAvailable', '-db', { steal: true, ifAvailable: true }],
  ['steal', 'db', { steal: true }],
  ['ifAvailable', 'db', { ifAvailable: true }],
  ['steal with the mode shared', 'db', { steal: true, mode: 'shared' }],
]) {
  test(`a signal that has aborted comes last: ${what} is reported before it`, {
    rules: [17], spec: SPEC,
  }, async ({ locks }) => {
    const promise = locks.request(name, { ...options, signal: AbortSignal.abort('reason') }, nothing);
    await rejectsWithDOMException(promise, 'NotSupportedError', what);
  });
}

test('conversions come before checks', { rules: [17, 21], spec: SPEC }, async ({ locks }) => {
  await rejectsWithTypeError(locks.request('-db', 'no object', nothing), 'a reserved name and options that are no object');
  await rejectsWithTypeError(locks.request('-db', {}, 'no function'), 'a reserved name and a callback that is no function');
  await rejectsWithTypeError(locks.request('-db', { mode: 'none' }, nothing), 'a reserved name and an unknown mode');
  const aborted = { signal: AbortSignal.abort() };
  await rejectsWithTypeError(locks.request('db', aborted, null), 'an aborted signal and no callback');
});

test('a request with a signal that has aborted is never made', { rules: [17], spec: SPEC }, async ({ locks, settle }) => {
  let called = false;
  const promise = locks.request('db', { signal: AbortSignal.abort('reason') }, () => (called = true));
  promise.catch(() => {}); // it is looked at in a later task
  const { held, pending } = await locks.query();
  same(held.length + pending.length, 0, 'the number of locks and requests');
  same(await rejection(promise, 'the request'), 'reason', 'the reason');
  await settle();
  same(called, false, 'the callback was called');
});

test('a refused thief takes nothing', { rules: [17, 14], spec: SPEC }, async ({ hold, locks }) => {
  const holder = hold('db');
  await holder.granted;
  await rejection(locks.request('db', { steal: true, mode: 'shared' }, nothing), 'the thief');
  same(await holder.release('kept'), 'kept', 'the value of the holder');
});
