// What is told of locks: how they are shown, why they were lost, and what takes long.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import process from 'node:process';
import { describe, test } from 'node:test';

import { createUserAgent, inspect, report } from 'navlock';

import { Hold } from '../kit/hold.mjs';
import { openPlace, program } from '../kit/place.mjs';
import { runtimes } from '../runtimes.mjs';
import { evaluate, evaluateOn } from './programs.mjs';

/** A lock manager that no other test sees. */
const open = () => createUserAgent({ reach: 'process', private: true }).locks;

for (const [name, words] of Object.entries(runtimes)) {
  test(`on ${name} console.log() shows the name and the mode of a lock`, async () => {
    const shown = await evaluateOn(words, { NAVLOCK_REACH: 'process' }, async ({ Lock, hold, locks }) => {
      const { format } = require('node:util');
      const held = await hold(locks, 'db', { mode: 'shared' });
      const all = [held.lock, held, { deep: { in: { an: held.lock } } }, Lock.prototype].map((value) => format(value));
      console.log(held.lock);
      return all.map((line) => line.replaceAll('"', "'").replace(/\s+/g, ' '));
    });
    assert.deepEqual(shown.slice(0, 2), ["Lock { name: 'db', mode: 'shared' }", "HeldLock { name: 'db', mode: 'shared' }"]);
    assert.match(shown[2], /an: (\[Lock\]|Lock \{ name: 'db', mode: 'shared' \})/);
    assert.match(shown[3], /Lock/);
  });
}

test('the error of a stolen lock says by whom in its cause', async () => {
  const bucket = createUserAgent({ reach: 'process' }).bucket('stolen').locks;
  const victim = new Hold(bucket, 'db');
  const { clientId, lost } = inspect(await victim.granted);
  await bucket.request('db', { steal: true }, () => {});
  const reason = await victim.ended.catch((reason) => reason);
  assert.equal(reason.name, 'AbortError');
  assert.deepEqual([reason.cause.code, reason.cause.clientId], ['STOLEN', clientId]);
  assert.ok(reason.cause instanceof Error && reason.cause.message.includes(clientId));
  assert.equal(lost.reason, reason);
  const { enumerable } = Object.getOwnPropertyDescriptor(reason, 'cause');
  assert.equal(enumerable, false);
});

test('the error of a lock that another process has stolen says by whom in its cause', async (context) => {
  stayAlive(context);
  const { socket, remove } = openPlace();
  context.after(remove);
  const victim = new Hold(createUserAgent({ reach: 'machine', socket, bucket: 'shop' }).locks, 'db');
  await victim.granted;
  const env = { NAVLOCK_BUCKET: 'shop', NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket };
  const thief = await evaluate(env, ({ inspect, locks }) => locks.request('db', { steal: true }, (lock) => inspect(lock).clientId));
  const { cause, name } = await victim.ended.catch((reason) => reason);
  assert.deepEqual([name, cause.code, cause.clientId], ['AbortError', 'STOLEN', thief]);
});

/** What is held does not keep a process alive, and nor do news of it. */
function stayAlive(context) {
  const timer = setInterval(() => {}, 1000);
  context.after(() => clearInterval(timer));
}

test('the error of a lock whose user agent was closed says that in its cause', async (context) => {
  stayAlive(context);
  const userAgent = createUserAgent({ reach: 'process', private: true });
  const holder = new Hold(userAgent.locks, 'db');
  await holder.granted;
  userAgent.close();
  const { cause, name } = await holder.ended.catch((reason) => reason);
  assert.deepEqual([name, cause.code, cause.clientId], ['AbortError', 'CLOSED', undefined]);
});

test('the error of a lock that was lost with its broker says that in its cause', async (context) => {
  const { folder, socket, remove } = openPlace();
  context.after(remove);
  const copy = path.join(folder, 'navlock');
  copyFileSync(program, copy);
  const env = { NAVLOCK_BIN: copy, NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket };
  const seen = await evaluateOn(runtimes.node, env, async ({ locks }, folder, copy, socket) => {
    setInterval(() => {}, 1000); // keeps the process alive
    const lost = locks.request('db', () => new Promise(() => {})).catch((reason) => reason);
    await locks.query();
    const status = require('node:child_process').execFileSync(copy, ['daemon', 'status', '--socket', socket], { encoding: 'utf8' });
    // No other broker can be started, and somebody gives this client up.
    require('node:fs').rmSync(copy);
    process.kill(Number(status.match(/^process +(\d+)$/m)[1]), 'SIGKILL');
    require('node:fs').rmSync(`${socket}.clients`, { recursive: true });
    const { cause, name } = await lost;
    return [name, cause.code];
  }, folder, copy, socket);
  assert.deepEqual(seen, ['AbortError', 'DISCONNECTED']);
});

test('the error of a lock whose lease has ended says that in its cause', async (context) => {
  const { folder, socket, remove } = openPlace();
  const etcd = await startEtcd(folder);
  context.after(() => {
    process.kill(etcd.pid, 'SIGCONT');
    remove();
    etcd.kill('SIGKILL');
  });
  const config = path.join(folder, 'config.toml');
  writeFileSync(config, `[etcd]\nendpoints = ["${etcd.endpoint}"]\ntime-to-live = 5\n`);
  const env = { NAVLOCK_BUCKET: 'shop', NAVLOCK_CONFIG: config, NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket };
  const seen = await evaluateOn(runtimes.node, env, async ({ locks }, etcd) => {
    setInterval(() => {}, 1000); // keeps the process alive
    let isHeld;
    const granted = new Promise((resolve) => (isHeld = resolve));
    const lost = locks.request('db', () => isHeld() ?? new Promise(() => {})).catch((reason) => reason);
    await granted;
    process.kill(etcd, 'SIGSTOP');
    const { cause, name } = await lost;
    return [name, cause.code];
  }, etcd.pid);
  assert.deepEqual(seen, ['AbortError', 'LEASE_ENDED']);
});

/** An etcd of the test's own, once it answers. */
async function startEtcd(folder) {
  const [client, peer] = await Promise.all([freePort(), freePort()]);
  const [endpoint, peers] = [client, peer].map((port) => `http://127.0.0.1:${port}`);
  const etcd = spawn('etcd', [
    '--data-dir', path.join(folder, 'etcd'), '--listen-client-urls', endpoint, '--advertise-client-urls', endpoint,
    '--listen-peer-urls', peers, '--initial-advertise-peer-urls', peers, '--initial-cluster', `default=${peers}`,
  ], { stdio: 'ignore' });
  etcd.endpoint = endpoint.replace('http://', '');
  while (!(await fetch(`${endpoint}/health`).then(({ ok }) => ok, () => false))) {
    if (etcd.exitCode !== null) throw new Error('etcd has ended');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return etcd;
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}

test('what fails otherwise has no cause', async (context) => {
  stayAlive(context);
  const locks = open();
  const userAgent = createUserAgent({ reach: 'process', private: true });
  const holder = new Hold(userAgent.locks, 'db');
  const failed = [userAgent.locks.request('db', () => {}), locks.request('-db', () => {})].map((request) => request.catch((reason) => reason));
  await holder.granted;
  userAgent.close();
  for (const reason of await Promise.all(failed)) {
    assert.ok(reason instanceof DOMException);
    assert.equal(Object.hasOwn(reason, 'cause'), false);
  }
});

/** Waits and holds for longer than is asked for. The warnings, in order. */
async function takeLong({ locks }) {
  const warnings = [];
  let told;
  const isTold = new Promise((resolve) => (told = resolve));
  process.on('warning', ({ code, lock, message, name }) => {
    warnings.push({ code, lock, message, name });
    if (warnings.length === 2) told();
  });
  const held = locks.request('db', function holder() { return isTold; });
  // What ends in time is nothing to tell of.
  for (let index = 0; index < 100; index++) await locks.request(`short ${index}`, () => {});
  const waited = (function waiter() {
    return locks.request('db', { mode: 'shared' }, () => {});
  })();
  await locks.request('db', { ifAvailable: true }, () => {});
  await Promise.all([held, waited]);
  return warnings;
}

// Side by side: each waits for time to pass.
describe('what takes long', { concurrency: 4 }, () => {
  for (const [name, words] of Object.entries(runtimes)) {
    for (const reach of ['process', 'machine']) {
      test(`on ${name} it is told what is held and waited for longer than was said, reach ${reach}`, async (context) => {
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

test('who waits for another process is told which it is, and no stacks that nobody has asked for', async (context) => {
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

test('who waits for another thread is told its client id', async () => {
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
