// What happens to holders and waiters when the broker is killed.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';

import { createUserAgent, inspect } from 'navlock';

import { Hold } from '../kit/hold.mjs';
import { openPlace, program } from '../kit/place.mjs';

/** The locks of a broker of the test's own, and a function that kills this broker. */
function open(context) {
  const { socket, remove } = openPlace();
  context.after(remove);
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

test('the log of the broker names no lock as lost that has ended with its program', async (context) => {
  const { socket, remove } = openPlace();
  const { NAVLOCK_LOG: _, ...env } = { ...process.env, NAVLOCK_SOCKET: socket, NAVLOCK_REACH: 'machine', NAVLOCK_BUCKET: 'face' };
  const broker = spawn(program, ['daemon', 'run'], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  const logged = text(broker.stderr);
  context.after(async () => {
    remove();
    await logged;
  });
  const script = `
    const { locks } = require('navlock');
    (async () => {
      for (let name = 0; name < 10; name++) await locks.request('used ' + name, () => {});
      for (let name = 0; name < 10; name++) await new Promise((granted) => locks.request('held ' + name, () => new Promise(granted)));
      process.exit();
    })();
  `;
  // The broker hears of all that ends with a thread while the connection of its process is still there.
  const inWorker = `
    const { Worker } = require('node:worker_threads');
    new Worker(${JSON.stringify(script)}, { eval: true }).on('exit', async () => {
      await require('navlock').locks.query();
      process.exit();
    });
  `;
  for (const code of [script, inWorker]) execFileSync(process.execPath, ['--eval', code], { cwd: import.meta.dirname, env });
  execFileSync(program, ['daemon', 'stop', '--socket', socket]);
  const lines = await logged;
  assert.match(lines, / INFO /);
  assert.doesNotMatch(lines, /lost/);
});

test('the settings of the machine say where the broker is', (context) => {
  const { folder, socket, remove } = openPlace();
  context.after(remove);
  const settings = path.join(folder, 'config.toml');
  writeFileSync(settings, `socket = "${socket}"\n`);
  const env = { ...process.env, NAVLOCK_CONFIG: settings, NAVLOCK_SOCKET: '', NAVLOCK_IDLE_SECS: '30' };
  const script = "import { locks } from 'navlock'; await locks.request('db', () => {});";
  execFileSync(process.execPath, ['--input-type=module', '--eval', script], { cwd: import.meta.dirname, env });
  const status = execFileSync(program, ['daemon', 'status', '--json', '--socket', socket], { encoding: 'utf8' });
  assert.equal(JSON.parse(status).socket, socket);
  writeFileSync(settings, 'socket = 7\n');
  const refused = `import { locks } from 'navlock'; await locks.request('db', () => {}).catch((error) => console.log(error.message));`;
  const said = execFileSync(process.execPath, ['--input-type=module', '--eval', refused], { cwd: import.meta.dirname, env, encoding: 'utf8' });
  assert.match(said, /config\.toml, line 1 \(socket\)/);
});
