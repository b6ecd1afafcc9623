// Reports: locks that are held for long, and requests that wait for long, are reported if a program asks for that.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import process from 'node:process';
import { describe, test } from 'node:test';

import { createUserAgent, inspect, report } from 'navlock';

import { Hold } from '../kit/hold.mjs';
import { openPlace, program } from '../kit/place.mjs';
import { runtimes } from '../runtimes.mjs';
import { evaluate, evaluateOn, navlock, run } from './programs.mjs';

/** Waits and holds for longer than the limits of the reports. Returns the warnings in order. */
async function takeLong({ locks }) {
  const warnings = [];
  let told;
  const isTold = new Promise((resolve) => (told = resolve));
  process.on('warning', ({ code, lock, message, name }) => {
    warnings.push({ code, lock, message, name });
    if (warnings.length === 2) told();
  });
  const held = locks.request('db', function holder() { return isTold; });
  // Locks that end in time are not reported.
  for (let index = 0; index < 100; index++) await locks.request(`short ${index}`, () => {});
  const waited = (function waiter() {
    return locks.request('db', { mode: 'shared' }, () => {});
  })();
  await locks.request('db', { ifAvailable: true }, () => {});
  await Promise.all([held, waited]);
  return warnings;
}

// The tests run side by side: each waits for time to pass.
describe('requests that take long', { concurrency: 4 }, () => {
  for (const [name, words] of Object.entries(runtimes)) {
    for (const reach of ['process', 'machine']) {
      test(`on ${name} locks and requests that take longer than the limit are told, reach ${reach}`, async (context) => {
        const { socket, remove } = openPlace();
        context.after(remove);
        const env = {
          NAVLOCK_BUCKET: 'shop', NAVLOCK_REACH: reach, NAVLOCK_SOCKET: socket,
          NAVLOCK_REPORT_HELD: '1000', NAVLOCK_REPORT_WAITING: '1000', NAVLOCK_REPORT_STACKS: '1',
        };
        const warnings = await evaluateOn(words, env, takeLong);
        const [held, waiting] = ['NAVLOCK_HELD', 'NAVLOCK_WAITING'].map((code) => warnings.find((warning) => warning.code === code));
        assert.equal(warnings.length, 2);
        assert.deepEqual([held.name, held.lock], ['NavlockWarning', { name: 'db', mode: 'exclusive', bucket: 'shop' }]);
        assert.match(held.message, /^the exclusive lock "db" \(bucket "shop"\) has been held for [1-9]\d{3,} ms\ntaken at\n.*takeLong/s);
        assert.deepEqual(waiting.lock, { name: 'db', mode: 'shared', bucket: 'shop' });
        assert.match(waiting.message, /^a request for the shared lock "db" \(bucket "shop"\) has waited for [1-9]\d{3,} ms; it is held by this thread\ntaken at\n.*takeLong.*\nrequested at\n.*waiter/s);
        assert.doesNotMatch(held.message + waiting.message, /navlock\/js\//);
      });
    }
  }
});

test('a waiter for another process is told which it is, and no stacks that nobody has asked for', async (context) => {
  const { socket, remove } = openPlace();
  context.after(remove);
  const { locks } = createUserAgent({ reach: 'machine', socket, bucket: 'shop' });
  const holder = new Hold(locks, 'db');
  const { clientId } = inspect(await holder.granted);
  const env = { NAVLOCK_BUCKET: 'shop', NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket, NAVLOCK_REPORT_WAITING: '50' };
  const message = await evaluateOn(runtimes.node, env, ({ locks }) => {
    locks.request('db', () => {});
    return new Promise((resolve) => process.on('warning', ({ message }) => resolve(message)));
  });
  await holder.release();
  assert.match(message, new RegExp(`; it is held by process ${process.pid} \\(.+\\) on \\S+, client ${clientId}, for \\d+ ms$`));
});

test('a waiter for another thread is told its client id', async () => {
  const message = await evaluate({ NAVLOCK_REACH: 'process', NAVLOCK_REPORT_WAITING: '50', NAVLOCK_BUCKET: 'shop' }, async ({ inspect, locks }) => {
    const { Worker } = require('node:worker_threads');
    const { once } = require('node:events');
    const source = `const { inspect, locks } = require(${JSON.stringify(require.resolve('navlock'))});
      locks.request('db', (lock) => new Promise(() => {
        require('node:worker_threads').parentPort.postMessage(inspect(lock).clientId);
        setInterval(() => {}, 1000);
      }));`;
    const worker = new Worker(source, { eval: true });
    const [clientId] = await once(worker, 'message');
    const warned = once(process, 'warning');
    locks.request('db', () => {});
    const [{ message }] = await warned;
    await worker.terminate();
    return message.replace(clientId, 'ID');
  });
  assert.match(message, /; it is held by client ID$/);
});

test('reports keep no process alive, and nothing is told that has not been asked for', async () => {
  const began = performance.now();
  const seen = await evaluate({ NAVLOCK_REACH: 'process', NAVLOCK_REPORT_HELD: '86400000' }, async ({ locks }) => {
    const { setTimeout } = require('node:timers/promises');
    process.on('warning', () => (globalThis.warned = true));
    locks.request('db', () => new Promise(() => {}));
    await locks.request('other', () => setTimeout(50));
    return globalThis.warned === undefined;
  });
  assert.equal(seen, true);
  assert.ok(performance.now() - began < 20_000);
});

test('reports of what takes very long set no timer for as long, which would keep what is over', async () => {
  const program = `const timers = require('node:timers');
    const { setTimeout } = timers;
    timers.setTimeout = (call, ms) => console.log(ms) ?? setTimeout(call, ms);
    const { locks } = require(${JSON.stringify(navlock)});
    locks.request('db', () => {});`;
  const printed = await run([...runtimes.node, '-e', program], { env: { NAVLOCK_REACH: 'process', NAVLOCK_REPORT_HELD: '86400000' } });
  assert.deepEqual(printed.trim().split('\n').map(Number), [5000]);
});

test('fake timers neither stop reports nor hear of them', async () => {
  const calls = await evaluateOn(runtimes.node, { NAVLOCK_REACH: 'process', NAVLOCK_REPORT_HELD: '50' }, async ({ locks }) => {
    const calls = [];
    setInterval(() => {}, 1000); // keeps the process alive
    const timers = require('node:timers');
    for (const name of ['setTimeout', 'setInterval', 'setImmediate']) {
      globalThis[name] = timers[name] = () => calls.push(name);
    }
    performance.now = Date.now = () => 0;
    await new Promise((resolve) => {
      process.on('warning', resolve);
      locks.request('db', () => new Promise(() => {}));
    });
    return calls;
  });
  assert.deepEqual(calls, []);
});

test('a program can ask for reports itself, from then on', async () => {
  const seen = await evaluateOn(runtimes.node, { NAVLOCK_REACH: 'process', NAVLOCK_REPORT_HELD: '1' }, async ({ locks, report }) => {
    const names = [];
    setInterval(() => {}, 1000); // keeps the process alive
    const heard = new Promise((resolve) => process.on('warning', ({ lock }) => names.push(lock.name) && resolve()));
    report({});
    let release;
    locks.request('before', () => new Promise((resolve) => (release = resolve)));
    report({ held: 20 });
    const after = locks.request('after', () => heard);
    await after;
    release();
    return names;
  });
  assert.deepEqual(seen, ['after']);
});

test('a limit that is set while locks are taken one by one counts for the later locks', async () => {
  const seen = await evaluateOn(runtimes.node, { NAVLOCK_REACH: 'process' }, async ({ locks, report, requestMultiple }) => {
    setInterval(() => {}, 1000); // keeps the process alive
    const told = new Promise((resolve) => process.on('warning', ({ lock }) => resolve(lock.name)));
    let release;
    const holder = locks.request('one', () => new Promise((resolve) => (release = resolve)));
    const both = requestMultiple(locks, ['one', 'two'], () => told);
    while ((await locks.query()).pending.length === 0);
    report({ held: 20 });
    release();
    return [await holder, await both];
  });
  assert.deepEqual(seen, [null, 'two']);
});

test('a lock that is stolen by who hears of its grant is not reported', async () => {
  const seen = await evaluateOn(runtimes.node, { NAVLOCK_REACH: 'process' }, async ({ locks, report }) => {
    const names = [];
    setInterval(() => {}, 1000); // keeps the process alive
    report({ held: 20, waiting: 20 });
    const heard = new Promise((resolve) => process.on('warning', ({ code, lock }) => names.push([code, lock.name]) === 3 && resolve()));
    const { subscribe, unsubscribe } = require('node:diagnostics_channel');
    const steal = () => {
      unsubscribe('locks.request.grant', steal);
      locks.request('db', { steal: true }, () => heard);
    };
    subscribe('locks.request.grant', steal);
    const victim = locks.request('db', () => heard).catch(({ cause }) => cause.code);
    locks.request('other', () => heard); // the last lock that is held for long
    await locks.query();
    locks.request('db', () => {}); // waits for the thief
    await heard;
    return [await victim, names];
  });
  assert.equal(seen[0], 'STOLEN');
  assert.deepEqual(seen[1].sort(), [['NAVLOCK_HELD', 'db'], ['NAVLOCK_HELD', 'other'], ['NAVLOCK_WAITING', 'db']]);
});

test('a waiter for a broker that does not answer is told that, and a report keeps no process alive for it', async (context) => {
  const { socket, remove } = openPlace();
  const daemon = (...words) => execFileSync(program, ['daemon', ...words, '--socket', socket], { encoding: 'utf8' });
  daemon('start');
  const broker = Number(daemon('status').match(/^process +(\d+)$/m)[1]);
  context.after(() => {
    process.kill(broker, 'SIGCONT');
    remove();
  });
  const env = { NAVLOCK_BUCKET: 'shop', NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket, NAVLOCK_REPORT_WAITING: '50' };
  const message = await evaluate(env, async ({ locks }, broker) => {
    await locks.query();
    process.kill(broker, 'SIGSTOP');
    const warned = new Promise((resolve) => process.on('warning', resolve));
    const controller = new AbortController();
    const waiting = locks.request('db', { signal: controller.signal }, () => {}).catch(() => {});
    const { message } = await warned;
    controller.abort();
    await waiting;
    return message; // and then the process ends by itself
  }, broker);
  assert.match(message, /has waited for \d+ ms; the broker has not said who holds it$/);
});

test('a program that says itself what a stack is gets its reports as well', async () => {
  const told = await evaluateOn(runtimes.node, { NAVLOCK_REACH: 'process' }, async ({ locks, report }) => {
    report({ held: 20, stacks: true });
    setInterval(() => {}, 1000); // keeps the process alive
    const told = [];
    for (const prepare of [(error, sites) => sites, () => { throw new Error('as planned'); }, () => Object.create(null)]) {
      Error.prepareStackTrace = prepare;
      const warned = new Promise((resolve) => process.once('warning', ({ message }) => resolve(message)));
      await locks.request('db', function holder() { return warned; });
      told.push((await warned).replace(/\d+ ms/, 'long'));
    }
    return told;
  });
  const held = /^the exclusive lock "db" \(bucket ".*"\) has been held for long/;
  for (const [index, end] of [/\ntaken at\n\s+at .*\[eval\]/, /long$/, /long$/].entries()) {
    assert.match(told[index], held);
    assert.match(told[index], end);
  }
});

for (const [options, message] of [
  [null, /^report: the options are not an object$/],
  [{ held: 0 }, /^report: held is not a number of milliseconds, that is, a whole one from 1 to 2147483647$/],
  [{ waiting: '5' }, /^report: waiting is not a number/],
  [{ held: 2 ** 31 }, /^report: held is not a number/],
  [{ stacks: 1 }, /^report: stacks is not a boolean$/],
  [{ stacks: 'warn' }, /^report: stacks is not a boolean$/],
  [{ strict: 'maybe' }, /^report: strict is not a boolean, nor "warn"$/],
]) {
  test(`report(${JSON.stringify(options)}) is a TypeError`, () => {
    assert.throws(() => report(options), (error) => error instanceof TypeError && message.test(error.message));
  });
}

test('variables of reports that make no sense are told by the request', async () => {
  const told = (env) => evaluate({ NAVLOCK_REACH: 'process', ...env }, ({ locks }) => locks.request('db', () => {}).catch(({ name, message }) => `${name}: ${message}`));
  assert.equal(await told({ NAVLOCK_REPORT_HELD: '5s' }), 'TypeError: NAVLOCK_REPORT_HELD is not a number of milliseconds, that is, a whole one from 1 to 2147483647');
  assert.equal(await told({ NAVLOCK_STRICT: 'yes' }), 'TypeError: NAVLOCK_STRICT is "yes", not "0" or "1" or "warn"');
});
