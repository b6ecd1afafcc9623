// Rules 10 to 12: what the callback's result, and its failure, lead to.

import { ok, rejection, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';
import { deferred } from '../kit/wait.mjs';

test('a callback that throws rejects the request and releases the lock', {
  rules: [10], spec: '#concept-lock',
}, async ({ isFree, locks }) => {
  const error = { any: 'value' };
  const request = locks.request('db', () => {
    throw error;
  });
  same(await rejection(request, 'the request'), error, 'the reason');
  ok(await isFree('db'), 'the lock is free');
});

test('a callback that throws lets the next one in', {
  rules: [10], spec: '#algorithm-release-lock',
}, async ({ hold, locks }) => {
  const request = locks.request('db', () => {
    throw new Error('as planned');
  });
  const next = hold('db');
  await rejection(request, 'the request');
  await next.granted;
});

test('a callback that is given null and throws rejects the request', {
  rules: [10], spec: '#algorithm-request-lock',
}, async ({ hold, locks }) => {
  await hold('db').granted;
  const error = new Error('as planned');
  const request = locks.request('db', { ifAvailable: true }, () => {
    throw error;
  });
  same(await rejection(request, 'the request'), error, 'the reason');
});

test('a callback whose promise is rejected rejects the request and releases the lock', {
  rules: [10], spec: '#concept-lock',
}, async ({ hold, isFree }) => {
  const holder = hold('db');
  await holder.granted;
  const error = new Error('as planned');
  holder.fail(error);
  same(await rejection(holder.ended, 'the request'), error, 'the reason');
  ok(await isFree('db'), 'the lock is free');
});

test('a request is fulfilled with what its callback returns', {
  rules: [11], spec: '#concept-lock',
}, async ({ hold, locks }) => {
  const value = { any: 'object' };
  same(await locks.request('db', () => value), value, 'of a value');
  same(await locks.request('db', async () => value), value, 'of a promise');
  same(await locks.request('db', () => {}), undefined, 'of nothing');
  await hold('other').granted;
  same(await locks.request('other', { ifAvailable: true }, () => value), value, 'of the callback that is given null');
});

test('a thenable holds the lock until it is done, and gives its value', {
  rules: [11], spec: 'https://webidl.spec.whatwg.org/#js-promise',
}, async ({ isFree, locks, settle }) => {
  const done = deferred();
  const adopted = deferred();
  const request = locks.request('db', () => ({
    then(resolve) {
      adopted.resolve();
      done.promise.then(resolve);
    },
  }));
  await adopted.promise;
  await settle();
  same(await isFree('db'), false, 'the lock is free');
  done.resolve('value');
  same(await request, 'value', 'the value');
  ok(await isFree('db'), 'the lock is free afterwards');
});

test('a thenable that fails rejects the request and releases the lock', {
  rules: [11, 10], spec: 'https://webidl.spec.whatwg.org/#js-promise',
}, async ({ isFree, locks }) => {
  const error = new Error('as planned');
  const rejected = locks.request('db', () => ({ then: (_, reject) => reject(error) }));
  same(await rejection(rejected, 'the request'), error, 'the reason, of a rejection');
  const thrown = locks.request('db', () => ({
    get then() {
      throw error;
    },
  }));
  same(await rejection(thrown, 'the request'), error, 'the reason, of a getter that throws');
  ok(await isFree('db'), 'the lock is free');
});

test('a thenable that the callback returns for null is adopted', {
  rules: [11], spec: '#algorithm-request-lock',
}, async ({ hold, locks }) => {
  await hold('db').granted;
  const request = locks.request('db', { ifAvailable: true }, () => ({ then: (resolve) => resolve('value') }));
  same(await request, 'value', 'the value');
});

test('of a promise that the callback returns, its own then() is called', {
  rules: [11], spec: 'https://webidl.spec.whatwg.org/#js-promise',
}, async ({ hold, locks }) => {
  const returned = () => Object.assign(Promise.resolve('another'), { then: (resolve) => resolve('value') });
  same(await locks.request('db', returned), 'value', 'the value');
  await hold('db').granted;
  same(await locks.request('db', { ifAvailable: true }, returned), 'value', 'the value, of the callback that is given null');
});

test('a promise of a derived class that the callback returns is adopted', {
  rules: [11], spec: 'https://webidl.spec.whatwg.org/#js-promise',
}, async ({ isFree, locks }) => {
  class Derived extends Promise {}
  same(await locks.request('db', () => Derived.resolve('value')), 'value', 'the value');
  const error = new Error('as planned');
  same(await rejection(locks.request('db', () => Derived.reject(error)), 'the request'), error, 'the reason');
  ok(await isFree('db'), 'the lock is free');
});

for (const [how, rules, callback] of [
  ['is fulfilled', [12], async () => {}],
  ['returns at once', [12], () => {}],
  ['is rejected', [12], async () => { throw new Error('as planned'); }],
  ['throws', [10, 12], () => { throw new Error('as planned'); }],
]) {
  test(`the lock is free before the request settles, when the callback ${how}`, {
    rules, spec: '#concept-lock',
  }, async ({ isFree, locks }) => {
    const ask = () => isFree('db');
    ok(await locks.request('db', callback).then(ask, ask), 'a request in its then() finds the lock free');
  });
}

test('the lock is free for other agents before the request settles', {
  rules: [12], spec: '#concept-lock', needs: ['workers'],
}, async ({ locks, spawnWorker }) => {
  const worker = await spawnWorker();
  for (let round = 0; round < 20; round++) {
    await locks.request('db', () => {});
    ok(await worker.isFree('db'), `round ${round}: the other agent finds it free`);
    await worker.run(({ locks }) => locks.request('db', () => {}));
    same(await locks.request('db', { ifAvailable: true }, (lock) => lock !== null), true, `round ${round}: this one does`);
  }
});

test('a released lock is gone from the snapshot before the request settles', {
  rules: [12, 31], spec: '#concept-lock',
}, async ({ locks }) => {
  const state = await locks.request('db', () => {}).then(() => locks.query());
  same(state.held.length, 0, 'the number of held locks');
});
