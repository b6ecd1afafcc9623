// What a killed broker is to those who hold and wait.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { test } from 'node:test';

import { createUserAgent, inspect } from 'navlock';

import { Hold } from '../kit/hold.mjs';

const program = path.join(path.dirname(createRequire(import.meta.url).resolve('navlock')), '..', 'bin', 'navlock');

/** The locks of a broker of the test's own, and a way to kill that. */
function open(context) {
  const folder = mkdtempSync(path.join(tmpdir(), 'navlock-face-'));
  const socket = path.join(folder, 'sock');
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return {
    locks: createUserAgent({ reach: 'machine', socket, bucket: 'face' }).locks,
    kill: () => {
      const status = execFileSync(program, ['daemon', 'status', '--socket', socket], { encoding: 'utf8' });
      process.kill(Number(status.match(/^process +(\d+)$/m)[1]), 'SIGKILL');
    },
  };
}

test('when the broker is killed, who holds goes on holding and who waits keeps its place', async (context) => {
  const { locks, kill } = open(context);
  const holder = new Hold(locks, 'db');
  const { lost } = inspect(await holder.granted);
  const order = [];
  const ask = (name) => locks.request('db', () => order.push(name));
  const waiters = [ask('first'), ask('second')];
  await locks.query();
  kill();
  waiters.push(ask('third'));
  const { held, pending } = await locks.query();
  assert.deepEqual([held.length, pending.length, lost.aborted, order], [1, 3, false, []]);
  await holder.release();
  await Promise.all(waiters);
  assert.deepEqual(order, ['first', 'second', 'third']);
});
