// Rules 7 and 13: when and how the callback runs.

import { equal, ok, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';
import { microtasks } from '../kit/wait.mjs';

/** Requests a lock, and returns what had happened by the time the callback ran. */
function orderOfEvents({ locks }, name, options) {
  const events = [];
  // As many microtasks in a row as code with many awaits has: all of them are one microtask checkpoint.
  microtasks(50).then(() => events.push('microtasks of before'));
  const request = locks.request(name, options, () => {
    events.push('callback');
  });
  events.push('request() has returned');
  microtasks(50).then(() => events.push('microtasks of after'));
  return request.then(() => events);
}

const EXPECTED = ['request() has returned', 'microtasks of before', 'microtasks of after', 'callback'];

test('the callback runs in a later task when the lock is free', {
  rules: [7], spec: '#algorithm-process-request',
}, async (context) => {
  equal(await orderOfEvents(context, 'db', {}), EXPECTED, 'what happened, in order');
});

test('the callback runs in a later task when it is given null', {
  rules: [7], spec: '#algorithm-request-lock',
}, async (context) => {
  await context.hold('db').granted;
  equal(await orderOfEvents(context, 'db', { ifAvailable: true }), EXPECTED, 'what happened, in order');
});

test('the callback runs in a later task when the lock is there for the taking', {
  rules: [7], spec: '#algorithm-process-request',
}, async (context) => {
  equal(await orderOfEvents(context, 'db', { ifAvailable: true }), EXPECTED, 'what happened, in order');
});

test('the callback of a thief runs in a later task', {
  rules: [7, 14], spec: '#algorithm-process-request',
}, async (context) => {
  await context.hold('db').granted;
  equal(await orderOfEvents(context, 'db', { steal: true }), EXPECTED, 'what happened, in order');
});

test('every callback of a row of readers has a microtask checkpoint of its own', {
  rules: [7], spec: '#algorithm-process-request',
}, async ({ hold, locks }) => {
  const writer = hold('db');
  await writer.granted;
  const events = [];
  const reader = (tag) => locks.request('db', { mode: 'shared' }, () => {
    events.push(tag);
    queueMicrotask(() => events.push(`after ${tag}`));
  });
  const readers = [reader('one'), reader('two')];
  writer.release();
  await Promise.all(readers);
  equal(events, ['one', 'after one', 'two', 'after two'], 'what happened, in order');
});

test('the callback is called with one argument and no this', {
  rules: [13], spec: 'https://webidl.spec.whatwg.org/#invoke-a-callback-function',
}, async ({ locks }) => {
  let call;
  await locks.request('db', function () {
    call = { self: this, count: arguments.length, lock: arguments[0] };
  });
  same(call.self, undefined, 'this');
  same(call.count, 1, 'the number of arguments');
  same(call.lock.name, 'db', 'the name of the lock');
});

test('a callback that is given null is called with one argument and no this', {
  rules: [13], spec: '#algorithm-request-lock',
}, async ({ hold, locks }) => {
  await hold('db').granted;
  let call;
  await locks.request('db', { ifAvailable: true }, function () {
    call = { self: this, count: arguments.length, lock: arguments[0] };
  });
  same(call.self, undefined, 'this');
  same(call.count, 1, 'the number of arguments');
  same(call.lock, null, 'the argument');
});

test('a callback is called once', {
  rules: [13], spec: '#algorithm-process-request',
}, async ({ locks, settle }) => {
  let calls = 0;
  await locks.request('db', () => calls++);
  await settle();
  same(calls, 1, 'the number of calls');
});

test('every request has a lock object of its own', {
  rules: [13], spec: '#algorithm-process-request',
}, async ({ hold }) => {
  const [one, two] = [hold('db', { mode: 'shared' }), hold('db', { mode: 'shared' })];
  ok((await one.granted) !== (await two.granted), 'two locks are two objects');
});
