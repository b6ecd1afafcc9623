// What is measured, each as microseconds for one of whatever it does many of.

import process from 'node:process';
import { Worker } from 'node:worker_threads';

const nothing = async () => {};
const now = () => performance.now() * 1000;
const range = (length, at) => Array.from({ length }, (_, index) => at(index));

/** Runs a case once to warm it up, then for its figures. */
export async function measure(name, subject, scale) {
  const run = cases[name];
  await run(subject, scale / 4);
  return run(subject, scale);
}

const cases = {
  /** One lock after the other, of one name. */
  async sequential({ request }, scale) {
    const count = Math.ceil(20_000 * scale);
    const began = now();
    for (let i = 0; i < count; i++) await request('db', {}, nothing);
    return { each: (now() - began) / count };
  },

  /** A thousand names at once. */
  async names({ request }, scale) {
    return atOnce(scale, (index) => request(`name ${index}`, {}, nothing));
  },

  /** A thousand shared locks of one name at once. */
  async shared({ request }, scale) {
    return atOnce(scale, () => request('db', { mode: 'shared' }, nothing));
  },

  /** Ten thousand requests that wait for one lock, and then get it one after the other. */
  async waiters({ request }, scale) {
    const [count, times] = [Math.ceil(10_000 * scale), 3];
    let [asking, draining] = [0, 0];
    for (let i = 0; i < times; i++) {
      const holder = await hold(request);
      const began = now();
      const waiting = range(count, () => request('db', {}, nothing));
      const asked = now();
      holder.release();
      await Promise.all([holder.done, ...waiting]);
      asking += asked - began;
      draining += now() - asked;
    }
    return { request: asking / times / count, drain: draining / times / count };
  },

  /** Ten thousand requests that wait, each aborted by a signal of its own. */
  async aborts({ request }, scale) {
    const count = Math.ceil(10_000 * scale);
    const holder = await hold(request);
    const controllers = range(count, () => new AbortController());
    const waiting = controllers.map(({ signal }) => request('db', { signal }, nothing).catch(() => {}));
    await tick();
    const began = now();
    for (const controller of controllers) controller.abort();
    await Promise.all(waiting);
    const each = (now() - began) / count;
    holder.release();
    await holder.done;
    return { each };
  },

  /** A snapshot of a thousand held locks. */
  async query({ request, query }, scale) {
    const holders = await Promise.all(range(1000, (index) => hold(request, `name ${index}`)));
    const count = Math.ceil(100 * scale);
    const began = now();
    for (let i = 0; i < count; i++) await query();
    const each = (now() - began) / count;
    for (const holder of holders) holder.release();
    await Promise.all(holders.map(({ done }) => done));
    return { each };
  },

  /** Two workers that take one lock in turn. */
  async workers(_subject, scale) {
    return between(scale, (count) => {
      const worker = new Worker(new URL('participant.mjs', import.meta.url), { workerData: { count } });
      return { say: (what) => worker.postMessage(what), onMessage: (handle) => worker.on('message', handle), end: () => worker.terminate() };
    });
  },

  /** A free lock of the machine, taken and released. */
  async acquire({ request }, scale) {
    const count = Math.ceil(3000 * scale);
    const began = now();
    for (let i = 0; i < count; i++) await request('db', {}, nothing);
    return { each: (now() - began) / count };
  },

  /** Two processes that take one lock in turn. */
  async handover(_subject, scale) {
    const { fork } = await import('node:child_process');
    return between(scale, (count) => {
      const child = fork(new URL('participant.mjs', import.meta.url), [String(count)], { execArgv: process.execArgv });
      return { say: (what) => child.send(what), onMessage: (handle) => child.on('message', handle), end: () => child.kill() };
    });
  },
};

async function atOnce(scale, request) {
  const times = Math.ceil(30 * scale);
  const began = now();
  for (let i = 0; i < times; i++) await Promise.all(range(1000, request));
  return { each: (now() - began) / times / 1000 };
}

/** A lock that is held until it is released. */
export async function hold(request, name = 'db') {
  let held;
  const isHeld = new Promise((resolve) => (held = resolve));
  let release;
  const released = new Promise((resolve) => (release = resolve));
  const done = request(name, {}, () => {
    held();
    return released;
  });
  await isHeld;
  return { release, done };
}

function tick() {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Has two participants take a lock in turn. Each says when it is ready, and when it is done. */
async function between(scale, start) {
  const count = Math.ceil(3000 * scale);
  const participants = [start(count), start(count)];
  const all = (what) =>
    Promise.all(participants.map(({ onMessage }) => new Promise((resolve) => onMessage((said) => said === what && resolve()))));
  const done = all('done');
  await all('ready');
  const began = now();
  for (const { say } of participants) say('go');
  await done;
  const each = (now() - began) / (2 * count);
  for (const { end } of participants) end();
  return { each };
}
