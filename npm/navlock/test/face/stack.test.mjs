// Where the stack is full, any call can fail, even in the middle of a request or a theft.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { openPlace } from '../kit/place.mjs';
import { evaluate } from './programs.mjs';

/**
 * Calls `act` where the stack has no room, and again and again on the way back, with a little more room each time.
 * Before that, calls `act` where there is room: the first calls compile code, which takes much of the stack.
 */
function whereTheStackIsFull(act) {
  let index = 0;
  const next = () => {
    try {
      act(index++);
    } catch {
      // There was not enough room for this call yet.
    }
  };
  while (index < 20) next();
  const deep = () => {
    try {
      deep();
    } catch {
      // There is no more room.
    }
    if (index < 400) next();
  };
  deep();
  if (index < 400) throw new Error('the stack was too short for this test');
}

/** By what is tested: a program, and the result that is expected of it. */
const ways = {
  'requests that fail give a RangeError and hold nothing, although nothing else is asked for': [async ({ locks }, whereTheStackIsFull) => {
    const asked = [];
    const thrown = [];
    // Each request has a name of its own. So what is held or pending later belongs to a request that has failed.
    whereTheStackIsFull((index) => {
      try {
        asked.push(locks.request(`db ${index}`, () => 'called'));
      } catch (error) {
        thrown.push(error);
      }
    });
    const outcomes = await Promise.all(asked.map((promise) => promise.catch((error) => error)));
    for (;;) {
      const { held, pending } = await locks.query();
      if (held.length + pending.length > 0) continue;
      const failed = [...thrown, ...outcomes].filter((outcome) => outcome !== 'called');
      return [failed.length > 0, failed.filter(({ name }) => name !== 'RangeError')];
    }
  }, [true, []]],

  'other requests go on': [async ({ locks }, whereTheStackIsFull) => {
    const names = Array.from({ length: 400 }, (_, index) => `db ${index}`);
    for (const name of names) locks.request(name, () => new Promise(() => {})).catch(() => {});
    // A theft that the stack had no room for may have been made and given up again. Then who waited is served before the
    // second theft, which may rob it.
    const served = ({ name }) => (name === 'AbortError' ? 'served' : name);
    const waiters = names.map((name) => locks.request(name, () => 'served').catch(served));
    await locks.request('settle', () => {});
    const thefts = [];
    whereTheStackIsFull((index) => thefts.push(locks.request(names[index], { steal: true }, () => {})));
    Promise.allSettled(thefts);
    for (const name of names) locks.request(name, { steal: true }, () => {}).catch(() => {});
    const outcomes = await Promise.all(waiters);
    for (;;) {
      const { held, pending } = await locks.query();
      if (held.length + pending.length === 0) return [...new Set(outcomes)];
    }
  }, ['served']],
};

for (const reach of ['process', 'machine']) {
  for (const [what, [program, expected]] of Object.entries(ways)) {
    test(`where the stack is full, ${what}, reach ${reach}`, async (context) => {
      const { socket, remove } = openPlace();
      context.after(remove);
      const source = `(navlock) => (${program})(navlock, ${whereTheStackIsFull})`;
      const seen = await evaluate({ NAVLOCK_REACH: reach, NAVLOCK_SOCKET: socket }, source);
      assert.deepEqual(seen, expected);
    });
  }
}
