// Whether anybody else has held a name: inspect(lock).changed, and the recipe of the book that uses it.

import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

import { createUserAgent, inspect, requestMultiple } from 'navlock';

import { startEtcd } from '../kit/etcd.mjs';
import { openPlace } from '../kit/place.mjs';
import { withDeadline } from '../kit/wait.mjs';
import { runtimes, withCollector } from '../runtimes.mjs';
import { evaluateOn } from './programs.mjs';

/** A lock manager that no other test sees. */
const open = () => createUserAgent({ reach: 'process', private: true }).locks;

const changed = (locks, name, options = {}) => locks.request(name, options, (lock) => inspect(lock).changed);

test('a name that only this thread has held has not changed', async () => {
  const locks = open();
  const first = changed(locks, 'db');
  const second = changed(locks, 'db'); // waits for the first one
  assert.deepEqual([await first, await second, await changed(locks, 'db')], [true, false, false]);
});

test('`changed` stays the same for the same lock', async () => {
  const locks = open();
  await changed(locks, 'db');
  await locks.request('db', (lock) => {
    assert.deepEqual([inspect(lock).changed, inspect(lock).changed], [false, false]);
  });
});

test('a name that another thread has held in between has changed, whether it was waited for or not', async () => {
  const { locks } = createUserAgent({ reach: 'process', bucket: 'changed' });
  await changed(locks, 'db');
  const module = JSON.stringify(createRequire(import.meta.url).resolve('navlock'));
  const use = `require(${module}).createUserAgent({ reach: 'process', bucket: 'changed' }).locks.request('db', () => {})`;
  await once(new Worker(use, { eval: true }), 'exit');
  assert.equal(await changed(locks, 'db'), true);
  assert.equal(await changed(locks, 'db'), false);
  // Once more, with two waiting requests: the worker's is the first.
  let exited;
  let mine;
  await locks.request('db', async (lock) => {
    assert.equal(inspect(lock).changed, false);
    exited = once(new Worker(use, { eval: true }), 'exit');
    while ((await locks.query()).pending.length === 0);
    mine = changed(locks, 'db');
  });
  assert.equal(await mine, true);
  await exited;
});

test('a name whose lock was stolen has changed', async () => {
  const locks = open();
  await locks.request('db', async (lock) => {
    inspect(lock);
    await locks.request('db', { steal: true }, () => {});
  }).catch(() => {});
  assert.equal(await changed(locks, 'db'), true);
});

test('a name has changed for who comes after a callback that has failed: it may not have looked at what others did', async () => {
  const locks = open();
  const fail = () => Promise.reject(new Error('as planned'));
  for (const failing of [
    () => locks.request('db', (lock) => inspect(lock) && fail()),
    () => requestMultiple(locks, ['db'], ([lock]) => inspect(lock) && fail()),
  ]) {
    await changed(locks, 'db');
    assert.equal(await changed(locks, 'db'), false);
    await assert.rejects(failing(), { message: 'as planned' });
    assert.deepEqual([await changed(locks, 'db'), await changed(locks, 'db')], [true, false]);
  }
  await requestMultiple(locks, ['db'], ([lock]) => assert.equal(inspect(lock).changed, false));
  assert.equal(await changed(locks, 'db'), false);
});

test('where that cannot be told it has: after other names, after a shared lock, after one that was not inspected', async () => {
  const locks = open();
  for (const between of [
    () => Promise.all(Array.from({ length: 1000 }, (_, index) => locks.request(`other ${index}`, () => {}))),
    () => changed(locks, 'db', { mode: 'shared' }),
    () => locks.request('db', () => {}),
  ]) {
    await changed(locks, 'db');
    assert.equal(await changed(locks, 'db'), false);
    await between();
    assert.equal(await changed(locks, 'db'), true);
  }
});

/** Starts an etcd for one test. Returns the environment for programs of a machine that uses it. */
async function openMachine(context, settings = '') {
  const { folder, socket, remove } = openPlace();
  const etcd = await startEtcd(folder);
  context.after(() => {
    remove();
    etcd.kill('SIGKILL');
  });
  const config = path.join(folder, 'config.toml');
  writeFileSync(config, `[stores.main]\netcd = ["${etcd.endpoint}"]\n${settings}`);
  return { NAVLOCK_BUCKET: 'shop', NAVLOCK_CONFIG: config, NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: `${socket}.store-main` };
}

test('on etcd, where a request and a release are writes, a name has changed but for who waited since before it was granted last', async (context) => {
  const env = await openMachine(context);
  const seen = await evaluateOn(runtimes.node, env, async ({ inspect, locks }) => {
    const changed = (lock) => inspect(lock).changed;
    const seen = [await locks.request('db', changed), await locks.request('db', changed)];
    const waiting = [];
    seen.push(await locks.request('db', async (lock) => {
      for (let index = 0; index < 3; index++) waiting.push(locks.request('db', changed));
      while ((await locks.query()).pending.length < 3);
      return changed(lock);
    }));
    return [...seen, ...await Promise.all(waiting)];
  });
  assert.deepEqual(seen, [true, true, true, true, false, false]);
});

test('on etcd a name that its machine owns has not changed, and has once it was taken without a look', async (context) => {
  const env = await openMachine(context, 'keep-names = 1\n');
  const seen = await evaluateOn(runtimes.node, env, async ({ createUserAgent, inspect, locks }) => {
    const look = (locks) => locks.request('db', (lock) => {
      const { changed, fencingToken } = inspect(lock);
      return { changed, counted: fencingToken & 0xfffffn };
    });
    // The machine owns the name once a token shows that the machine counts the grants.
    let isCounted = false;
    for (let nth = 0; nth < 100 && !isCounted; nth += 1) isCounted = (await look(locks)).counted !== 0n;
    if (!isCounted) throw new Error('its machine does not keep it');
    const kept = [await look(locks), await look(locks)].map(({ changed }) => changed);
    await createUserAgent({ bucket: 'shop' }).locks.request('db', () => {});
    return [...kept, (await look(locks)).changed, (await look(locks)).changed];
  });
  assert.deepEqual(seen, [false, false, true, false]);
});

test('tokens in a row are those of etcd only where locks have leases', () => {
  const { haveOthersHeld, noteUse } = createRequire(import.meta.resolve('navlock'))('./holders.cjs');
  const after = (last, token, hasLease) => {
    const request = { isShared: false, manager: { number: 0 }, name: 'db', realm: { hasLease: () => hasLease } };
    noteUse(request, last);
    return haveOthersHeld(request, token);
  };
  const at = (revision, counted = 0n) => (revision << 20n) + counted;
  for (const hasLease of [false, true]) {
    for (const [last, token] of [[7n, 8n], [at(7n, 3n), at(7n, 4n)]]) assert.equal(after(last, token, hasLease), false);
    for (const [last, token] of [
      [at(7n), at(7n)], [at(7n), at(9n)], [at(7n), at(8n, 2n)], [at(7n), at(9n, 1n)],
      // The earlier token was counted by a machine, and others may have been counted after it.
      [at(7n, 1n), at(8n)], [at(7n, 1n), at(8n, 1n)], [at(7n, 1n), at(8n, 2n)], [at(7n, 3n), at(7n, 5n)],
    ]) assert.equal(after(last, token, hasLease), true, `${last} ${token}`);
    for (const token of [at(8n), at(8n, 1n)]) assert.equal(after(at(7n), token, hasLease), !hasLease);
  }
});

test('names that have been inspected leave nothing behind', async () => {
  const grown = await evaluateOn(withCollector.node, { NAVLOCK_REACH: 'process' }, async ({ inspect, locks }) => {
    const { setImmediate } = require('node:timers/promises');
    const look = async (from, to) => {
      for (let index = from; index < to; index++) await locks.request(`name ${index}`, (lock) => inspect(lock).changed);
      for (let turn = 0; turn < 5; turn++) {
        globalThis.gc();
        await setImmediate();
      }
      return process.memoryUsage().heapUsed;
    };
    const before = await look(0, 5_000);
    return (await look(5_000, 50_000)) - before;
  });
  assert.ok(grown < 1_000_000, `the heap has grown by ${grown} bytes`);
});

/** A server whose refresh tokens are good once: it refuses a token that is used again. */
async function openServer(context) {
  const server = { current: 'refresh 0', refreshes: 0, reused: [] };
  const http = createServer((request, response) => {
    const token = decodeURIComponent(request.url.slice(1));
    if (token !== server.current) {
      server.reused.push(token);
      response.writeHead(401).end();
      return;
    }
    server.refreshes++;
    server.current = `refresh ${server.refreshes}`;
    response.end(JSON.stringify({ access: server.refreshes, refresh: server.current }));
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  context.after(() => http.closeAllConnections() ?? http.close());
  return { server, url: `http://127.0.0.1:${http.address().port}` };
}

/**
 * Starts a process with the recipe of the book. Returns a function that tells the process which access has expired,
 * and returns what the process then has.
 */
function openClient(context, file, url, socket) {
  const program = path.join(import.meta.dirname, 'session.mjs');
  const env = { ...process.env, NAVLOCK_SOCKET: socket, NAVLOCK_REACH: 'machine', NAVLOCK_BUCKET: 'session' };
  const child = fork(program, [file, url], { env });
  const ended = once(child, 'exit').then(([code]) => { throw new Error(`the process has ended (${code})`); });
  ended.catch(() => {});
  context.after(() => child.kill('SIGKILL') && ended.catch(() => {}));
  return async (expired) => {
    child.send(expired);
    const [said] = await withDeadline(Promise.race([once(child, 'message'), ended]), 20_000, 'the process said nothing');
    return said;
  };
}

test('two processes refresh a token once that is good once, and read it only if the other has', async (context) => {
  const { folder, socket, remove } = openPlace();
  const { server, url } = await openServer(context);
  const file = path.join(folder, 'session.json');
  writeFileSync(file, JSON.stringify({ access: 0, refresh: 'refresh 0' }));
  const clients = [1, 2].map(() => openClient(context, file, url, socket));
  context.after(remove); // after the processes have ended
  for (let round = 0; round < 5; round++) {
    const said = await Promise.all(clients.map((client) => client(round)));
    // In each process, three callers ask for an access.
    for (const { accesses } of said) assert.deepEqual(accesses, [round + 1, round + 1, round + 1]);
    assert.deepEqual([server.refreshes, server.reused], [round + 1, []]);
  }
  // A process that is alone does not read the file again: only this process has written it.
  const before = await clients[0](5);
  const after = await clients[0](6);
  assert.equal(after.reads, before.reads);
  assert.deepEqual([server.refreshes, server.reused], [7, []]);
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).access, 7);
});
