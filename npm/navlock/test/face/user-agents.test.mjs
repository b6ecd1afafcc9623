// Which objects have the same locks, and which options are refused.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';
import process from 'node:process';
import { test } from 'node:test';

import * as navlock from 'navlock';
import { createUserAgent, inspect } from 'navlock';

import { Hold } from '../kit/hold.mjs';
import { openPlace, program } from '../kit/place.mjs';
import { evaluate } from './programs.mjs';

test('both entries of the package have the same locks', () => {
  const required = createRequire(import.meta.url)('navlock');
  assert.deepEqual(Object.keys(required).sort(), Object.keys(navlock).sort());
  for (const name of Object.keys(required)) assert.equal(navlock[name], required[name], name);
});

test('the same user agent and bucket are the same lock manager', () => {
  const one = createUserAgent({ reach: 'process' });
  const two = createUserAgent({ reach: 'process' });
  assert.equal(one.locks, one.locks);
  assert.equal(one.locks, two.locks);
  assert.equal(one.bucket('red').locks, two.bucket('red').locks);
  assert.equal(one.bucket('red').locks, createUserAgent({ reach: 'process', bucket: 'red' }).locks);
  assert.notEqual(one.bucket('red').locks, one.locks);
  assert.notEqual(one.locks, createUserAgent({ reach: 'machine' }).locks);
  const [own, other] = [1, 2].map(() => createUserAgent({ reach: 'process', private: true }).locks);
  assert.notEqual(own, other);
  assert.notEqual(own, one.locks);
});

test('two paths of one socket are one user agent', () => {
  const [one, two] = ['/tmp/navlock/sock', '/tmp/../tmp/navlock/sock'].map((socket) => createUserAgent({ reach: 'machine', socket }));
  assert.equal(one.locks, two.locks);
});

for (const env of [{}, { NAVLOCK_REACH: 'process' }, { NAVLOCK_REACH: 'machine', NAVLOCK_BUCKET: 'red', NAVLOCK_SOCKET: '/tmp/navlock/sock' }]) {
  test(`the default user agent is the one of ${JSON.stringify(env)}`, async () => {
    const { NAVLOCK_REACH: reach, NAVLOCK_BUCKET: bucket, NAVLOCK_SOCKET: socket } = env;
    const same = await evaluate(env, (navlock, options) => {
      const userAgent = navlock.createUserAgent(options);
      return [userAgent.reach, userAgent.locks === navlock.locks, navlock.createUserAgent().locks === navlock.locks];
    }, { reach, bucket, socket });
    assert.deepEqual(same, [reach ?? 'machine', true, true]);
  });
}

for (const [what, options, message] of [
  ['options that are no object', 'machine', /options are not an object/],
  ['an unknown reach', { reach: 'moon' }, /reach is "moon", not "process", "machine" or "system"/],
  ['a private user agent of the machine', { reach: 'machine', private: true }, /only the reach "process" has private/],
  ['private that is no boolean', { private: 1 }, /private is not a boolean/],
  ['a socket of a process', { reach: 'process', socket: '/tmp/sock' }, /the reach "process" has no socket/],
  ['a socket of the broker of several users', { reach: 'system', socket: '/tmp/sock' }, /the reach "system" has no socket/],
  ['a socket that is no path', { reach: 'machine', socket: 5 }, /socket is not a path/],
  ['a bucket without a name', { bucket: '' }, /bucket is not a name/],
  ['a bucket that is no string', { bucket: 5 }, /bucket is not a name/],
  ['a bucket with a lone surrogate', { bucket: '\ud800' }, /lone surrogate/],
  ['a bucket that is too long', { bucket: 'x'.repeat(65_537) }, /65537 bytes, more than 65536/],
]) {
  test(`${what} is a TypeError`, () => {
    assert.throws(() => createUserAgent(options), (error) => error instanceof TypeError && message.test(error.message));
  });
}

test('an environment that makes no sense is told by the first request, not by the import', async () => {
  const outcome = await evaluate({ NAVLOCK_REACH: 'moon' }, async ({ createUserAgent, locks }) => {
    const told = (error) => `${error.name}: ${error.message}`;
    let thrown;
    try {
      createUserAgent();
    } catch (error) {
      thrown = told(error);
    }
    const other = createUserAgent({ reach: 'process', private: true }).locks;
    return [thrown, await locks.request('db', () => {}).catch(told), await locks.query().catch(told), await other.request('db', () => 'granted')];
  });
  const told = 'TypeError: NAVLOCK_REACH is "moon", not "process", "machine" or "system"';
  assert.deepEqual(outcome, [told, told, told, 'granted']);
});

test('a broker that cannot be started is an OperationError that says what to do', async (context) => {
  const { socket, remove } = openPlace();
  context.after(remove);
  const env = { NAVLOCK_REACH: 'machine', NAVLOCK_BIN: '/nowhere/navlock', NAVLOCK_SOCKET: socket, NAVLOCK_BUCKET: 'shop' };
  const [name, message] = await evaluate(env, ({ locks }) => locks.request('db', () => {}).catch(({ name, message }) => [name, message]));
  assert.equal(name, 'OperationError');
  assert.match(message, /no program \/nowhere\/navlock.*NAVLOCK_BIN.* \(bucket "shop"\)$/);
});

test('NAVLOCK_BIN may be a path from the working folder', async (context) => {
  const { socket, remove } = openPlace();
  context.after(remove);
  const env = { NAVLOCK_REACH: 'machine', NAVLOCK_BIN: path.relative(process.cwd(), program), NAVLOCK_SOCKET: socket };
  assert.equal(await evaluate(env, ({ locks }) => locks.request('db', () => 'granted')), 'granted');
});

test('copies of the module in one thread have the same locks, and are two agents', async () => {
  const ids = await evaluate({ NAVLOCK_REACH: 'process' }, async ({ locks }, copy) => {
    for (const file of Object.keys(require.cache)) delete require.cache[file];
    const other = require(copy).locks;
    const clients = await locks.request('db', { mode: 'shared' }, () => other.request('db', { mode: 'shared' }, () => other.query()));
    return [other === locks, new Set(clients.held.map(({ clientId }) => clientId)).size];
  }, createRequire(import.meta.url).resolve('navlock'));
  assert.deepEqual(ids, [false, 2]);
});

test('a private user agent that is closed ends what was asked of it, and nothing of others', async () => {
  const userAgent = createUserAgent({ reach: 'process', private: true });
  const other = createUserAgent({ reach: 'process', private: true }).locks;
  const { locks } = userAgent;
  const bucket = userAgent.bucket('red');
  const holder = new Hold(locks, 'db');
  const { lost } = inspect(await holder.granted);
  const waiter = locks.request('db', () => {});
  const kept = new Hold(other, 'db');
  await kept.granted;
  userAgent.close();
  userAgent.close();
  await assert.rejects(waiter, { name: 'InvalidStateError', message: /closed/ });
  await assert.rejects(holder.ended, { name: 'AbortError', message: /its user agent has been closed/ });
  assert.ok(lost.aborted);
  await assert.rejects(locks.request('other', () => {}), { name: 'InvalidStateError' });
  await assert.rejects(bucket.locks.request('db', () => {}), { name: 'InvalidStateError' });
  for (const use of [() => userAgent.locks, () => userAgent.bucket('red')]) assert.throws(use, { name: 'InvalidStateError', message: 'the user agent has been closed' });
  assert.equal((await other.query()).held.length, 1);
  await kept.release();
});

test('a user agent that others share goes on when one of them closes it', async () => {
  const [one, two] = [1, 2].map(() => createUserAgent({ reach: 'process', bucket: 'shared' }));
  const holder = new Hold(one.locks, 'db');
  await holder.granted;
  one.close();
  assert.throws(() => one.locks, { name: 'InvalidStateError' });
  assert.equal((await two.locks.query()).held.length, 1);
  await holder.release('done');
  assert.equal(await holder.ended, 'done');
});

test('a user agent is disposed of by closing it', { skip: typeof Symbol.dispose !== 'symbol' && 'this runtime has no Symbol.dispose' }, () => {
  const userAgent = createUserAgent({ reach: 'process', private: true });
  userAgent[Symbol.dispose]();
  assert.throws(() => userAgent.locks, { name: 'InvalidStateError' });
});
