// Where the stack is full, any call can fail, even in the middle of a request, an abort or a theft.

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
  'requests that fail hold nothing, although nothing else is asked for': [async ({ locks }, whereTheStackIsFull) => {
    const asked = [];
    let tried = 0;
    // Each request has a name of its own. So what is held or pending later belongs to a request that has failed.
    whereTheStackIsFull((index) => {
      tried++;
      asked.push(locks.request(`db ${index}`, () => {}));
    });
    await Promise.allSettled(asked);
    for (;;) {
      const { held, pending } = await locks.query();
      if (held.length + pending.length === 0) return asked.length < tried;
    }
  }, true],

  'looks that fail leave others whole': [async ({ locks, look }, whereTheStackIsFull) => {
    const news = look(locks);
    await news.next();
    const [begun, asked] = [[], []];
    whereTheStackIsFull(() => {
      const one = look(locks, { name: 'db' });
      begun.push(one);
      asked.push(one.next());
    });
    const waits = news.next();
    await locks.request('db', () => {});
    await Promise.allSettled(asked);
    for (const one of begun) await one.return();
    return (await waits).done === false && (await news.return()).done;
  }, true],

  'a signal with which requests have failed aborts the next one': [async ({ locks }, whereTheStackIsFull) => {
    const controllers = Array.from({ length: 400 }, () => new AbortController());
    let release;
    let holder;
    await new Promise((granted) => {
      holder = locks.request('db', () => new Promise((resolve) => granted(release = resolve)));
    });
    const asked = [];
    whereTheStackIsFull((index) => asked.push(locks.request('db', { signal: controllers[index].signal }, () => {})));
    Promise.allSettled(asked);
    const outcomes = controllers.map(({ signal }) => locks.request('db', { signal }, () => 'called').catch((reason) => reason));
    for (const controller of controllers) controller.abort('aborted');
    const { pending } = await locks.query();
    release();
    await holder;
    const { getEventListeners } = require('node:events');
    const listeners = controllers.map(({ signal }) => getEventListeners(signal, 'abort').length);
    return [...new Set(await Promise.all(outcomes)), ...new Set(listeners), pending.length];
  }, ['aborted', 0, 0]],

  'an abort reaches all that wait with the signal, and nobody else is disturbed': [async ({ locks }, whereTheStackIsFull) => {
    const controllers = Array.from({ length: 400 }, () => new AbortController());
    const releases = [];
    const names = controllers.map((_, index) => `db ${index}`);
    const holders = names.map((name) => locks.request(name, { mode: 'shared' }, () => new Promise((resolve) => releases.push(resolve))));
    // With each signal two writers wait, and a reader waits behind them.
    const outcomes = controllers.flatMap(({ signal }, index) => [1, 2].map(
      () => locks.request(names[index], { signal }, () => 'called').catch((reason) => reason),
    ));
    const others = names.map((name) => locks.request(name, { mode: 'shared' }, () => 'served'));
    // This request is granted after all earlier grants have come. A query would not do: a broker may answer it earlier.
    await locks.request('settle', () => {});
    // Runtimes report listeners for which there was no room. That is not what is tested.
    process.on('uncaughtException', () => {});
    whereTheStackIsFull((index) => controllers[index].abort('aborted'));
    for (const controller of controllers) controller.abort('aborted');
    for (const release of releases) release();
    await Promise.all(holders);
    const seen = new Set([...await Promise.all(others), ...await Promise.all(outcomes)]);
    const { held, pending } = await locks.query();
    return [...seen, held.length, pending.length];
  }, ['served', 'aborted', 0, 0]],

  'a theft tells all victims': [async ({ locks }, whereTheStackIsFull) => {
    const names = Array.from({ length: 400 }, (_, index) => `db ${index}`);
    const victims = names.map((name) => new Promise((resolve) => {
      locks.request(name, () => new Promise(() => {})).catch(({ name }) => resolve(name));
    }));
    const waiters = names.map((name) => locks.request(name, () => 'served'));
    await locks.request('settle', () => {});
    const thefts = [];
    whereTheStackIsFull((index) => thefts.push(locks.request(names[index], { steal: true }, () => {})));
    Promise.allSettled(thefts);
    Promise.allSettled(names.map((name) => locks.request(name, { steal: true }, () => {})));
    const outcomes = [...await Promise.all(victims), ...await Promise.all(waiters)];
    for (;;) {
      const { held, pending } = await locks.query();
      if (held.length + pending.length === 0) return [...new Set(outcomes)];
    }
  }, ['AbortError', 'served']],
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
