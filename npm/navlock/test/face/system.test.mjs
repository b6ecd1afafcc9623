// The locks that several users of a machine share. Here one user has them alone, whose own group is that of the broker.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { test } from 'node:test';

import { program } from '../kit/place.mjs';
import { evaluate } from './programs.mjs';

const skip = process.platform !== 'linux' && 'such a broker is for Linux';

function makeFolder() {
  return path.join(mkdtempSync(path.join(tmpdir(), 'navlock-test-')), 'place');
}

const remove = (folder) => rmSync(path.dirname(folder), { recursive: true, force: true });

/** Starts a broker in a folder of its own, and waits until it listens. */
async function startBroker(context) {
  const folder = makeFolder();
  const words = ['daemon', 'run', '--system', '--group', String(process.getgid())];
  const env = { ...process.env, NAVLOCK_SYSTEM: folder, NAVLOCK_STATE: path.dirname(folder), NAVLOCK_ETCD: '', NAVLOCK_CONFIG: '/dev/null' };
  const broker = spawn(program, words, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(broker, 'exit');
  context.after(async () => {
    broker.kill();
    await ended;
    remove(folder);
  });
  const [said] = await once(broker.stdout, 'data');
  assert.equal(String(said), 'ready\n');
  return folder;
}

for (const [how, env, reach] of [
  ['a user agent of this reach', {}, 'system'],
  ['NAVLOCK_REACH', { NAVLOCK_REACH: 'system' }, undefined],
  ['NAVLOCK_SYSTEM', {}, undefined],
]) {
  test(`a program meets commands of the machine's broker by ${how}`, { skip }, async (context) => {
    const folder = await startBroker(context);
    const codes = await evaluate({ ...env, NAVLOCK_SYSTEM: folder }, ({ createUserAgent }, program, options) => {
      const { spawnSync } = require('node:child_process');
      const code = () => spawnSync(program, ['run', '--system', '--bucket', 'shop', '-n', 'db', 'true']).status;
      const { locks } = createUserAgent(options);
      return locks.request('db', code).then((held) => [held, code()]);
    }, program, { reach, bucket: 'shop' });
    assert.deepEqual(codes, [1, 0]);
  });
}

test('where no such broker runs a request is told who starts it, and nothing is started', { skip }, async (context) => {
  const folder = makeFolder();
  context.after(() => remove(folder));
  mkdirSync(folder, { mode: 0o750 });
  const told = await evaluate({ NAVLOCK_SYSTEM: folder }, ({ createUserAgent }) => createUserAgent({ reach: 'system' }).locks
    .request('db', () => {})
    .catch(({ name, message }) => `${name}: ${message}`));
  assert.match(told, /^OperationError: .*no system broker runs; an administrator starts it/);
  const status = spawnSync(program, ['daemon', 'status', '--system'], { env: { ...process.env, NAVLOCK_SYSTEM: folder } });
  assert.equal(status.status, 69);
});
