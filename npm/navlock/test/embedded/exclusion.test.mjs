// Scripts in engines embedded in Rust, scripts in Node and commands have the same locks.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import assert from 'node:assert/strict';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { openPlace } from '../kit/place.mjs';
import { task } from '../kit/wait.mjs';
import { build } from '../subjects/embedded.mjs';

const { navlock, 'navlock-js-run': jsRun } = build();
const place = openPlace(navlock);
const env = { ...process.env, NAVLOCK_SOCKET: place.socket, NAVLOCK_BIN: navlock, NAVLOCK_REACH: 'machine', NAVLOCK_BUCKET: 'shared' };
const holder = fileURLToPath(new URL('holder.mjs', import.meta.url));

const children = [];
after(() => {
  for (const child of children) child.kill('SIGKILL');
  place.remove();
});

/** Starts a program that prints "granted" and holds its lock until it is given a line. */
function start(file, args) {
  const child = spawn(file, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
  children.push(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const program = {
    line: async () => (await lines.next()).value,
    release: () => child.stdin.write('\n'),
    ended: once(child, 'close').then(([code, signal]) => (program.end = [code, signal])),
    /** The program's code and signal, once it has ended, or the reason why it could not be started. */
    end: undefined,
  };
  // Code that awaits `ended` still sees the rejection.
  program.ended.catch((error) => (program.end = [error.message]));
  return program;
}

/** How many locks are held, and how many requests wait. */
function state() {
  const output = execFileSync(navlock, ['query', '--bucket', 'shared', '--json'], { env, encoding: 'utf8' });
  const states = output.split('\n').filter(Boolean).map((line) => JSON.parse(line).state);
  return ['held', 'pending'].map((wanted) => states.filter((state) => state === wanted).length);
}

test('scripts on Boa and QuickJS, a Node process and a command exclude each other', { timeout: 180_000 }, async ({ signal }) => {
  const programs = {
    Boa: [jsRun, ['--engine', 'boa', holder]],
    Node: [process.execPath, [holder]],
    'navlock run': [navlock, ['run', '--bucket', 'shared', 'db', '--', 'sh', '-c', 'echo granted; read line; echo released']],
    QuickJS: [jsRun, ['--engine', 'quickjs', holder]],
  };
  const queue = [];
  for (const [name, [file, args]] of Object.entries(programs)) {
    const program = Object.assign(start(file, args), { name });
    queue.push(program);
    if (queue.length === 1) assert.equal(await program.line(), 'granted', name);
    // Wait until this program has its place in the queue, before the next one makes its request.
    while (state().join() !== [1, queue.length - 1].join()) {
      signal.throwIfAborted(); // without this the loop would go on after the deadline of the test
      assert.equal(program.end?.join(' '), undefined, `${name} has ended before it has asked for its lock`);
      await task();
    }
  }
  for (const [index, { name, line, release, ended }] of queue.entries()) {
    if (index > 0) assert.equal(await line(), 'granted', name);
    assert.deepEqual(state(), [1, queue.length - 1 - index], `who holds and who waits while ${name} holds`);
    release();
    assert.equal(await line(), 'released', name);
    assert.deepEqual(await ended, [0, null], `the end of ${name}`);
  }
});
