// How locks are printed, and what an error says about how a lock was lost.

import assert from 'node:assert/strict';
import { copyFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { test } from 'node:test';

import { createUserAgent, inspect } from 'navlock';

import { startEtcd } from '../kit/etcd.mjs';
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

/** Keeps the process alive: neither a held lock nor the news that it is lost does. */
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
    // No other broker can be started. The client's files are removed, as by a daemon that gives the client up.
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
  writeFileSync(config, `[stores.main]\netcd = ["${etcd.endpoint}"]\ntime-to-live = 5\n`);
  const env = { NAVLOCK_BUCKET: 'shop', NAVLOCK_CONFIG: config, NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: `${socket}.store-main` };
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

test('any other failure has no cause', async (context) => {
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
