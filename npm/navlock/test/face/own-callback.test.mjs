// Requests for a lock that is held by the callback in which they are made.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { openPlace, program } from '../kit/place.mjs';
import { runtimes, withCollector } from '../runtimes.mjs';
import { evaluateOn } from './programs.mjs';

const WARN = { NAVLOCK_BUCKET: 'shop', NAVLOCK_REACH: 'process', NAVLOCK_STRICT: 'warn' };
const STRICT = { ...WARN, NAVLOCK_STRICT: '1' };

/**
 * Makes requests that wait for their own callbacks, in every way. Returns how the inner requests were rejected, and how
 * many locks and requests are left.
 */
async function nest({ locks, requestMultiple }) {
  const told = (error) => `${error.name}: ${error.message}`;
  const seen = {};
  await Promise.all([
    locks.request('direct', async () => { seen.direct = await locks.request('direct', () => {}).catch(told); }),
    locks.request('returned', () => locks.request('returned', () => {})).catch((error) => (seen.returned = told(error))),
    locks.request('outer', () => locks.request('inner', async () => {
      await null;
      seen.outer = await locks.request('outer', { mode: 'shared' }, () => {}).catch(told);
    })),
    locks.request('later', async () => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      seen.later = await locks.request('later', () => {}).catch(told);
    }),
    locks.request('shared', { mode: 'shared' }, async () => { seen.shared = await locks.request('shared', () => {}).catch(told); }),
    requestMultiple(locks, ['one', 'two'], async () => { seen.multiple = await requestMultiple(locks, ['zero', 'two'], () => {}).catch(told); }),
  ]);
  const { held, pending } = await locks.query();
  return { seen, left: held.length + pending.length };
}

/**
 * Makes requests that seem to wait for their own callbacks and do not. Returns what was reported, how many were
 * granted, and how many locks and requests are left.
 */
async function lookAlikes({ createUserAgent, locks }) {
  const told = [];
  process.on('warning', ({ message }) => told.push(message));
  let granted = 0;
  const grant = () => void granted++;
  const fail = (error) => told.push(`${error.name}: ${error.message}`);
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const long = () => wait(1300); // longer than it takes until a report
  const other = createUserAgent({ reach: 'process', bucket: 'other' }).locks;
  const requests = [];
  const ask = (manager, name, ...rest) => requests.push(manager.request(name, ...rest).catch(fail));

  // The callback does not wait for the request, which is granted when the callback has ended.
  ask(locks, 'forgotten', () => void ask(locks, 'forgotten', grant));
  ask(locks, 'forgotten later', async () => {
    ask(locks, 'forgotten later', grant);
    await wait(300);
  });
  // Locks that others hold: one of another bucket, one of another name.
  ask(other, 'bucket', long);
  ask(locks, 'name 2', long);
  ask(locks, 'bucket', () => other.request('bucket', grant));
  ask(locks, 'name', () => locks.request('name 2', grant));
  // A shared request inside a shared lock. A writer before it in the queue gives up in the end.
  ask(locks, 'shared', { mode: 'shared' }, async () => {
    locks.request('shared', { signal: AbortSignal.timeout(1300) }, () => told.push('the writer was called')).catch(() => {});
    await locks.request('shared', { mode: 'shared' }, grant);
  });
  // Requests that do not wait.
  ask(locks, 'available', async () => { await locks.request('available', { ifAvailable: true }, grant); await long(); });
  locks.request('stolen', async () => { await locks.request('stolen', { steal: true }, grant); await long(); }).catch(() => {});
  // A request that a signal ends.
  ask(locks, 'signal', async () => {
    await locks.request('signal', { signal: AbortSignal.timeout(1300) }, () => {}).catch(({ name }) => name === 'TimeoutError' && grant());
  });
  // A request that is made when the callback has ended, by code that began in the callback. Another callback holds the
  // name for long.
  const ended = wait(200);
  let late;
  const isLate = new Promise((resolve) => (late = resolve));
  ask(locks, 'ended', () => void ended.then(() => late(locks.request('ended', grant))));
  ask(locks, 'ended', () => ended.then(long));
  requests.push(isLate.catch(fail));
  // A request in a callback whose lock was stolen. The thief holds the lock for long.
  let begun;
  const isBegun = new Promise((resolve) => (begun = resolve));
  locks.request('lost', async () => {
    ask(locks, 'lost', grant);
    begun();
    await long();
  }).catch(() => {});
  await isBegun;
  ask(locks, 'lost', { steal: true }, long);

  while (requests.length > 0) await requests.shift();
  const { held, pending } = await locks.query();
  return { told, granted, left: held.length + pending.length };
}

// The tests run side by side: each waits for time to pass.
describe('requests in their own callback', { concurrency: 4 }, () => {
  for (const [name, words] of Object.entries(runtimes)) {
    test(`on ${name} NAVLOCK_STRICT=1 rejects what waits for its own callback, which goes on`, async () => {
      const { left, seen } = await evaluateOn(words, STRICT, nest);
      assert.deepEqual(Object.keys(seen).sort(), ['direct', 'later', 'multiple', 'outer', 'returned', 'shared']);
      for (const told of Object.values(seen)) assert.match(told, /^OperationError: a request for the (exclusive|shared) lock .* held by the callback in which the request was made/);
      assert.equal(left, 0);
      assert.match(seen.direct, /\nrequested at\n\s+at .*\nheld by the callback that was given at\n\s+at .*/);
    });
  }

  test('a warning names both places', async () => {
    const message = await evaluateOn(runtimes.node, WARN, ({ locks }) => {
      function inner() { return locks.request('db', () => {}); }
      (function outer() { return locks.request('db', async () => { await inner(); }); })();
      return new Promise((resolve) => process.on('warning', ({ code, lock, message }) => resolve(JSON.stringify({ code, lock }) + message)));
    });
    assert.match(message, /^{"code":"NAVLOCK_OWN_CALLBACK","lock":{"name":"db","mode":"exclusive","bucket":"shop"}}a request for the exclusive lock "db" \(bucket "shop"\) has waited for [1-9]\d{3,} ms for the exclusive lock of that name, held by the callback in which the request was made\. If that callback waits for it, neither ever ends\.\nrequested at\n\s+at inner .*\nheld by the callback that was given at\n\s+at outer /s);
  });

  test('there is one warning for each place', async () => {
    const names = await evaluateOn(runtimes.node, WARN, async ({ locks }) => {
      const names = [];
      const isTold = new Promise((resolve) => process.on('warning', ({ lock }) => names.push(lock.name) && lock.name === 'last' && resolve()));
      const deadlock = (name) => locks.request(name, { mode: 'shared' }, async () => { await locks.request(name, () => {}); });
      // Three holders of one name, which do not exclude each other. All are at one place, and each waits for itself.
      for (let index = 0; index < 3; index++) deadlock('db');
      locks.request('last', () => locks.request('last', () => {}));
      await isTold;
      return names;
    });
    assert.deepEqual(names, ['db', 'last']);
  });

  for (const [name, words] of Object.entries(runtimes)) {
    for (const [how, env] of Object.entries({ warned: WARN, rejected: STRICT })) {
      test(`on ${name} nothing is ${how} that can be granted`, async () => {
        const { granted, left, told } = await evaluateOn(words, env, lookAlikes);
        assert.deepEqual(told, []);
        assert.deepEqual([granted, left], [10, 0]);
      });
    }
  }

  test('time in which the process did nothing else does not count: the end of the callback may be on its way', async () => {
    const seen = await evaluateOn(runtimes.node, STRICT, async ({ locks }) => {
      const { setImmediate } = require('node:timers/promises');
      const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
      let inner;
      await locks.request('db', async () => {
        inner = locks.request('db', () => 'granted').catch(({ message }) => message);
        setTimeout(block, 1, 1300);
        block(5); // the timer is due before everything else
        for (let turn = 0; turn < 5; turn++) await setImmediate();
      });
      return inner;
    });
    assert.equal(seen, 'granted');
  });

  test('a request that does not wait for its own callback but for a broker that does not answer is left alone', async (context) => {
    const { socket, remove } = openPlace();
    context.after(remove);
    const env = { ...STRICT, NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket };
    const seen = await evaluateOn(runtimes.node, env, ({ locks }, program, socket) => locks.request('db', async () => {
      const { execFileSync } = require('node:child_process');
      const status = execFileSync(program, ['daemon', 'status', '--socket', socket], { encoding: 'utf8' });
      const broker = Number(status.match(/^process +(\d+)$/m)[1]);
      process.kill(broker, 'SIGSTOP');
      setTimeout(() => process.kill(broker, 'SIGCONT'), 1300);
      return locks.request('db', { ifAvailable: true }, (lock) => (lock === null ? 'not available' : 'granted'));
    }), program, socket);
    assert.equal(seen, 'not available');
  });

  test('a request within its own callback is told with reach machine as well', async (context) => {
    const { socket, remove } = openPlace();
    context.after(remove);
    const { left, seen } = await evaluateOn(runtimes.node, { ...STRICT, NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket }, nest);
    assert.deepEqual([Object.keys(seen).length, left], [6, 0]);
  });

  for (const name of ['node', 'node20']) {
    test(`on ${name} contexts that follow each other for ever keep nothing of those before`, async () => {
      const grown = await evaluateOn(withCollector[name], STRICT, async ({ locks }) => {
        const { setImmediate } = require('node:timers/promises');
        const memory = async () => {
          for (let i = 0; i < 5; i++) {
            globalThis.gc();
            await setImmediate();
          }
          return process.memoryUsage().heapUsed;
        };
        // Each callback requests the next lock while it holds its own, so the next callback begins in its context.
        const pass = (count) => new Promise((resolve) => {
          const next = (index) => locks.request(`baton ${index % 2}`, async () => {
            if (index < count) {
              next(index + 1);
            } else {
              setInterval(() => {}, 1000); // the timer keeps its context
              resolve();
            }
            await setImmediate();
          });
          next(0);
        });
        await pass(2_000);
        const before = await memory();
        await pass(10_000);
        return (await memory()) - before;
      });
      assert.ok(grown < 1_000_000, `the heap has grown by ${grown} bytes`);
    });
  }
});
