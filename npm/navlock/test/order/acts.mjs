// What two processes do in turns. Both run this, each one its part.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

import { createUserAgent, hold } from 'navlock';

/** Each round of a death starts a process, which takes Node longer than all else. */
const DEATHS = 20;
const holder = fileURLToPath(new URL('order.test.mjs', import.meta.url));

export const { NAVLOCK_SOCKET: socket } = process.env;
/** The locks of such a process. */
export const locks = socket && createUserAgent({ reach: 'machine', socket, bucket: 'order' }).locks;
const nothing = () => {};
export const take = (name, options = {}) => locks.request(name, options, (lock) => lock !== null);
const has = (list, name) => list.some((lock) => lock.name === name);

/** Takes the lock and releases it, up to three times: after that this process may own the name. */
export async function turns(name, round) {
  for (let turn = round % 4; turn > 0; turn--) await take(name);
}

/** The first snapshot that shows the lock as held. */
async function queryUntilHeld(name) {
  for (;;) {
    const seen = await locks.query();
    if (has(seen.held, name)) return seen;
  }
}

/**
 * In every other four rounds, lets the second one ask before this side does what counts: the broker has just answered it
 * then, and is about to look whether it says more.
 */
async function letAskBefore(side, round) {
  if ((round >> 2) % 2 === 0) return;
  side.tell();
  await side.hear();
}

/** What the second one is told before, if it asks in this round. */
async function askBefore(side, round, ask) {
  if ((round >> 2) % 2 === 0) return undefined;
  await side.hear();
  const told = await ask();
  side.tell();
  return told;
}

/** Makes a request that has to wait, and aborts it. */
async function abort(side, round) {
  const controller = new AbortController();
  const request = locks.request('x', { signal: controller.signal }, nothing);
  // Once this is answered, the broker knows of the request.
  if (round % 2 === 1) await locks.query();
  await letAskBefore(side, round);
  side.flood();
  controller.abort();
  await assert.rejects(request, { name: 'AbortError' });
}

/** Makes one request that waits and another one that does not, and ends both once the other side has seen that. */
async function requestBoth(side, tells) {
  const controller = new AbortController();
  const waiting = locks.request('x', { signal: controller.signal }, nothing).catch(nothing);
  const held = await hold(locks, 'y');
  if (tells) side.tell();
  await side.hear();
  controller.abort();
  await waiting;
  await held.release();
}

/** The second one in rounds in which the lock becomes available. */
async function available(side, round) {
  const isHadBefore = await askBefore(side, round, () => take('x', { ifAvailable: true }));
  await side.hear();
  const isHad = await take('x', { ifAvailable: true });
  side.tell();
  return isHad && !isHadBefore;
}

/**
 * What the two do in a round. `first` may do something that fills its socket right before what counts: `flood`.
 * `second` returns whether it was told what is right.
 */
export const acts = {
  'a lock that was released is available': {
    async first(side, round) {
      await turns('x', round);
      const held = await hold(locks, 'x');
      await letAskBefore(side, round);
      side.flood();
      await held.release();
      side.tell();
      await side.hear();
    },
    second: available,
  },
  'a lock is available after a callback, too': {
    async first(side, round) {
      await turns('x', round);
      await locks.request('x', async () => {
        await letAskBefore(side, round);
        side.flood();
      });
      side.tell();
      await side.hear();
    },
    second: available,
  },
  'a lock whose holder has died is available': {
    rounds: DEATHS,
    async first(side, round) {
      const child = spawn(process.execPath, [holder, 'holder', String(round)], { stdio: ['ignore', 'pipe', 'inherit'] });
      await once(child.stdout, 'data');
      await letAskBefore(side, round);
      child.kill('SIGKILL');
      await once(child, 'exit');
      side.tell();
      await side.hear();
    },
    second: available,
  },
  // The second one holds the lock for reading, and may read it twice as long as no writer waits.
  'a request that was aborted stands in nobody\'s way': {
    async first(side, round) {
      await side.hear();
      await abort(side, round);
      side.tell();
      await side.hear();
    },
    async second(side, round) {
      const held = await hold(locks, 'x', { mode: 'shared' });
      side.tell();
      await askBefore(side, round, () => locks.query());
      await side.hear();
      const isHad = await take('x', { mode: 'shared', ifAvailable: true });
      await held.release();
      side.tell();
      return isHad;
    },
  },
  'a request that was aborted is not shown': {
    async first(side, round) {
      await side.hear();
      await abort(side, round);
      side.tell();
      await side.hear();
    },
    async second(side, round) {
      const held = await hold(locks, 'x');
      side.tell();
      await askBefore(side, round, () => locks.query());
      await side.hear();
      const { pending } = await locks.query();
      await held.release();
      side.tell();
      return !has(pending, 'x');
    },
  },
  'a lock that was granted is not available': {
    async first(side, round) {
      await turns('x', round);
      side.flood();
      const held = await hold(locks, 'x');
      side.tell();
      await side.hear();
      await held.release();
    },
    async second(side) {
      await side.hear();
      const isHad = await take('x', { ifAvailable: true });
      side.tell();
      return !isHad;
    },
  },
  'a lock that was stolen is the thief\'s': {
    async first(side) {
      await side.hear();
      side.flood();
      const held = await hold(locks, 'x', { steal: true });
      side.tell();
      await side.hear();
      await held.release();
    },
    async second(side, round) {
      await turns('x', round);
      const held = await hold(locks, 'x');
      const own = (await locks.query()).held.find(({ name }) => name === 'x').clientId;
      side.tell();
      await side.hear();
      const holders = (await locks.query()).held.filter(({ name }) => name === 'x');
      const isRight = holders.length === 1 && holders[0].clientId !== own && held.lost.aborted;
      side.tell();
      return isRight;
    },
  },
  'who sees a lock of an agent sees what it had requested before': {
    async first(side, round) {
      await turns('y', round);
      await side.hear();
      side.flood();
      await requestBoth(side, true);
    },
    async second(side) {
      const held = await hold(locks, 'x');
      side.tell();
      await side.hear();
      const seen = await locks.query();
      await held.release();
      side.tell();
      return has(seen.held, 'y') && has(seen.pending, 'x');
    },
  },
  'who looks meanwhile and sees a lock of an agent sees what it had requested before': {
    async first(side, round) {
      await turns('y', round);
      await side.hear();
      side.tell();
      side.flood();
      await requestBoth(side, false);
    },
    async second(side) {
      const held = await hold(locks, 'x');
      side.tell();
      await side.hear();
      const { pending } = await queryUntilHeld('y');
      await held.release();
      side.tell();
      return has(pending, 'x');
    },
  },
  'who looks meanwhile and sees a lock of an agent does not see what it had released before': {
    async first(side, round) {
      await turns('y', round);
      const held = await hold(locks, 'x');
      side.tell();
      side.flood();
      await held.release();
      const next = await hold(locks, 'y');
      await side.hear();
      await next.release();
      side.tell();
    },
    async second(side) {
      await side.hear();
      const { held } = await queryUntilHeld('y');
      side.tell();
      await side.hear();
      return !has(held, 'x');
    },
  },
  // `hot` is owned, and so is `hotter`; the second one holds `held`.
  'callbacks of an agent run in the order of its requests, where all could be granted': {
    async first(side, round) {
      for (const name of ['hot', 'hotter']) await turns(name, 3);
      await side.hear();
      side.flood();
      const called = [];
      const call = (which) => (lock) => called.push(lock ? which : `no ${which}`);
      await Promise.all([
        locks.request('hot', call('first')),
        locks.request(`new-${round}`, call('second')),
        locks.request('hot', call('third')),
      ]);
      await Promise.all([
        locks.request('hot', call('fourth')),
        locks.request('held', { ifAvailable: true }, call('fifth')),
        locks.request(`newer-${round}`, call('sixth')),
        locks.request('held', { ifAvailable: true }, call('seventh')),
        locks.request('hotter', call('eighth')),
      ]);
      side.tell(called.join() === 'first,second,third,fourth,no fifth,sixth,no seventh,eighth');
      await side.hear();
    },
    async second(side) {
      const held = await hold(locks, 'held');
      side.tell();
      const isRight = await side.hear();
      await held.release();
      side.tell();
      return isRight;
    },
  },
};
