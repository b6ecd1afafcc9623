// A test file that is an ECMAScript module. It has no global functions of the runner, and all timers are fake before
// anything is loaded.

import assert from 'node:assert/strict';

import { afterAll, jest, test } from '@jest/globals';
import { locks } from 'navlock';

test('locks are granted although all timers are fake from the start', async () => {
  assert.equal(navigator.locks, locks);
  const holder = locks.request('db', () => new Promise((resolve) => setTimeout(resolve, 1000)));
  const waiter = locks.request('db', () => 'served');
  await locks.request('other', () => {});
  jest.advanceTimersByTime(1000);
  await holder;
  assert.equal(await waiter, 'served');
});

afterAll(async () => assert.equal(await locks.request('after all', () => 'granted'), 'granted'));
