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

function openFolder(context) {
  const folder = mkdtempSync(path.join(tmpdir(), 'navlock-test-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return path.join(folder, 'place');
}

/** Starts the broker of the machine in this folder, and waits until it listens. */
async function startBroker(context, folder) {
  const words = ['daemon', 'run', '--system', '--group', String(process.getgid())];
  const env = { ...process.env, NAVLOCK_SYSTEM: folder, NAVLOCK_STATE: path.dirname(folder), NAVLOCK_ETCD: '', NAVLOCK_CONFIG: '/dev/null' };
  const broker = spawn(program, words, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  context.after(async () => {
    broker.kill();
    await once(broker, 'exit');
  });
  const [said] = await once(broker.stdout, 'data');
  assert.equal(String(said), 'ready\n');
}

for (const [how, env, reach] of [
  ['a user agent of this reach', {}, 'system'],
  ['NAVLOCK_REACH', { NAVLOCK_REACH: 'system' }, undefined],
  ['NAVLOCK_SYSTEM', {}, undefined],
]) {
  test(`a program meets commands of the machine's broker by ${how}`, { skip }, async (context) => {
    const folder = openFolder(context);
    await startBroker(context, folder);
    const codes = await evaluate({ ...env, NAVLOCK_SYSTEM: folder }, ({ createUserAgent }, program, reach) => {
      const { spawnSync } = require('node:child_process');
      const code = () => spawnSync(program, ['run', '--system', '--bucket', 'shop', '-n', 'db', 'true']).status;
      const { locks } = createUserAgent({ reach, bucket: 'shop' });
      return locks.request('db', code).then((held) => [held, code()]);
    }, program, reach);
    assert.deepEqual(codes, [1, 0]);
  });
}

test('where no such broker runs a request is told who starts it, and nothing is started', { skip }, async (context) => {
  const folder = openFolder(context);
  mkdirSync(folder, { mode: 0o750 });
  const told = await evaluate({ NAVLOCK_SYSTEM: folder }, ({ createUserAgent }) => createUserAgent({ reach: 'system' }).locks
    .request('db', () => {})
    .catch(({ name, message }) => `${name}: ${message}`));
  assert.match(told, /^OperationError: .*no system broker runs; an administrator starts it/);
  const status = spawnSync(program, ['daemon', 'status', '--system'], { env: { ...process.env, NAVLOCK_SYSTEM: folder } });
  assert.equal(status.status, 69);
});
