// Where the stack is full, any call can fail, also in the middle of a request.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { evaluate } from './programs.mjs';

test('a request that fails where the stack is full holds nothing', async () => {
  const seen = await evaluate({ NAVLOCK_REACH: 'process' }, async ({ locks }) => {
    const { signal } = new AbortController();
    const asked = [];
    const ask = () => {
      if (asked.length < 60) asked.push(locks.request('db', { signal }, async () => {}).catch(() => {}));
    };
    // On the way back from where the stack was full there is a little more room each time.
    const deep = () => {
      try {
        deep();
      } catch {
        // There is no more room.
      }
      try {
        ask();
      } catch {
        // There is not enough for this yet.
      }
    };
    deep();
    await Promise.all(asked);
    return locks.request('db', { ifAvailable: true }, (lock) => lock !== null);
  });
  assert.equal(seen, true);
});
