// What is measured: each gives `request(name, options, callback)` and says which cases it has.

import { randomUUID } from 'node:crypto';
import { createConnection } from 'node:net';
import path from 'node:path';
import process from 'node:process';

/** Cases that are about the order and the fate of requests, which only lock managers have. */
const LOCK_MANAGER = ['sequential', 'names', 'shared', 'waiters', 'aborts', 'query', 'workers'];

export const subjects = {
  native: {
    title: 'native',
    cases: LOCK_MANAGER,
    open: async () => lockManager(navigator.locks),
  },
  navlock: {
    title: 'navlock',
    cases: LOCK_MANAGER,
    open: async () => {
      const { createUserAgent } = await import('../js/index.mjs');
      return lockManager(createUserAgent({ reach: 'process', bucket: 'bench' }).locks);
    },
  },
  'one face': {
    title: 'navlock-js on Node-API',
    cases: LOCK_MANAGER,
    open: async () => {
      const { default: face } = await import('./one-face/face.cjs');
      return lockManager(face.openLockManager('bench').locks);
    },
  },
  machine: {
    title: 'navlock between processes',
    cases: ['sequential', 'acquire', 'handover'],
    open: async () => {
      const { createUserAgent } = await import('../js/index.mjs');
      return lockManager(createUserAgent({ reach: 'machine', bucket: 'bench' }).locks);
    },
  },
  // It is started with NAVLOCK_DELEGATE=0, and so is its broker.
  asking: {
    title: 'navlock between processes, without names of its own',
    cases: ['sequential', 'acquire', 'handover'],
    scale: 0.2,
    open: () => subjects.machine.open(),
  },
  machines: {
    title: 'navlock between machines',
    cases: ['acquire', 'handover'],
    scale: 0.1,
    open: async () => {
      const { createUserAgent } = await import('../js/index.mjs');
      return lockManager(createUserAgent({ reach: 'machine', bucket: 'bench' }).locks);
    },
  },
  'lock service': {
    title: "etcd's own lock service, by its JSON gateway",
    // A lease that waits for what it has itself does not wait.
    cases: ['acquire'],
    scale: 0.1,
    open: async () => {
      const call = async (method, message) => {
        const answer = await fetch(`http://${process.env.BENCH_PLACE}/v3/${method}`, { method: 'POST', body: JSON.stringify(message) });
        if (!answer.ok) throw new Error(`${method}: ${answer.status} ${await answer.text()}`);
        return answer.json();
      };
      const { ID: lease } = await call('lease/grant', { TTL: 60 });
      return {
        async request(name, _options, callback) {
          const { key } = await call('lock/lock', { name: btoa(`bench ${name}`), lease });
          const result = await callback();
          await call('lock/unlock', { key });
          return result;
        },
      };
    },
  },
  'async-mutex': {
    title: 'async-mutex',
    cases: ['sequential', 'names', 'waiters'],
    open: async () => {
      const { Mutex } = await import('async-mutex');
      const mutexes = new Map();
      return {
        request(name, _options, callback) {
          let mutex = mutexes.get(name);
          if (!mutex) mutexes.set(name, (mutex = new Mutex()));
          return mutex.runExclusive(callback);
        },
      };
    },
  },
  'async-lock': {
    title: 'async-lock',
    cases: ['sequential', 'names', 'waiters'],
    open: async () => {
      const AsyncLock = (await import('async-lock')).default;
      const locks = new AsyncLock({ maxPending: Infinity });
      return { request: (name, _options, callback) => locks.acquire(name, callback) };
    },
  },
  map: {
    title: 'a map of promises',
    cases: ['sequential', 'names', 'waiters'],
    // The least that keeps an order by name. Its callbacks run in microtasks, and names are kept.
    open: async () => {
      const last = new Map();
      return {
        request(name, _options, callback) {
          const done = (last.get(name) ?? Promise.resolve()).then(callback);
          last.set(name, done);
          return done;
        },
      };
    },
  },
  hop: {
    title: 'a hop by setImmediate',
    cases: ['sequential'],
    // What it costs that a callback runs in a task.
    open: async () => ({
      request: (_name, _options, callback) =>
        new Promise((resolve) => setImmediate(() => resolve(callback()))),
    }),
  },
  bare: {
    title: 'a socket to a bare broker',
    cases: ['acquire', 'handover'],
    open: () => bareBroker(process.env.BENCH_PLACE),
  },
  ioredis: {
    title: 'ioredis',
    cases: ['acquire'],
    open: async () => {
      const { default: Redis } = await import('ioredis');
      const redis = new Redis({ path: process.env.BENCH_PLACE });
      const unlock = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
      redis.defineCommand('unlock', { numberOfKeys: 1, lua: unlock });
      return {
        async request(name, _options, callback) {
          const token = randomUUID();
          // Nobody else is there: it is free.
          if ((await redis.set(name, token, 'PX', 30_000, 'NX')) === null) throw new Error('held');
          const result = await callback();
          await redis.unlock(name, token);
          return result;
        },
        close: () => redis.quit(),
      };
    },
  },
  'proper-lockfile': {
    title: 'proper-lockfile',
    cases: ['acquire', 'handover'],
    // Who waits tries again every millisecond: as many as of the others would take minutes.
    scale: 0.05,
    open: async () => {
      const { default: lockfile } = await import('proper-lockfile');
      const retries = { forever: true, factor: 1, minTimeout: 1, maxTimeout: 1 };
      return {
        async request(name, _options, callback) {
          const file = path.join(process.env.BENCH_PLACE, name);
          const release = await lockfile.lock(file, { realpath: false, retries });
          const result = await callback();
          await release();
          return result;
        },
      };
    },
  },
};

function lockManager(locks) {
  return { request: (name, options, callback) => locks.request(name, options, callback), query: () => locks.query() };
}

/** A client of the floor in benches/src/broker/peer/bare.rs, which describes what is said. */
async function bareBroker(place) {
  const [ACQUIRE, RELEASE, HEAD] = [1, 2, 13];
  const socket = createConnection(place);
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  const waiting = new Map();
  let heard = Buffer.alloc(0);
  socket.on('data', (bytes) => {
    heard = heard.length === 0 ? bytes : Buffer.concat([heard, bytes]);
    let used = 0;
    for (; heard.length - used >= 12; used += 12) {
      const number = heard.readUInt32LE(used + 4);
      waiting.get(number)();
      waiting.delete(number);
    }
    heard = heard.subarray(used);
  });
  const frame = (what, number, name) => {
    const bytes = Buffer.allocUnsafe(HEAD + name.length);
    bytes.writeUInt32LE(HEAD - 4 + name.length, 0);
    bytes[4] = what;
    bytes.writeUInt32LE(number, 5);
    bytes.writeUInt32LE(0, 9);
    bytes.write(name, HEAD, 'latin1');
    return bytes;
  };
  let last = 0;
  return {
    async request(name, _options, callback) {
      const number = ++last;
      const granted = new Promise((resolve) => waiting.set(number, resolve));
      socket.write(frame(ACQUIRE, number, name));
      await granted;
      const result = await callback();
      socket.write(frame(RELEASE, number, name));
      return result;
    },
    close: () => socket.destroy(),
  };
}
