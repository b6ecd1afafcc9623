// Requests that would wait for ever, for others that wait for what is held around them.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { openPlace, program } from '../kit/place.mjs';
import { runtimes } from '../runtimes.mjs';
import { evaluateOn } from './programs.mjs';

const PROCESS = { NAVLOCK_BUCKET: 'shop', NAVLOCK_REACH: 'process', NAVLOCK_DEADLOCKS: '1' };

const DEADLOCK = /^deadlock: these wait for each other, and none goes on unless one of them ends\n {2}\S.* holds "b" .* inside it waits for "a" .*\n/;

/** Two callbacks that ask for each other's lock, the second one last. How they ended, and what is left. */
async function cross({ locks }) {
  const told = (error) => `${error.name}: ${error.message}`;
  const has = {};
  const ready = ['a', 'b'].map((name) => new Promise((resolve) => { has[name] = resolve; }));
  const both = Promise.all(ready);
  let waits;
  const isFirst = new Promise((resolve) => { waits = resolve; });
  const first = locks.request('a', async () => {
    has.a();
    await both;
    const asked = locks.request('b', () => 'granted').catch(told);
    waits();
    return asked;
  });
  const second = locks.request('b', async () => {
    has.b();
    await both;
    await isFirst;
    return locks.request('a', () => 'granted').catch(told);
  });
  const ends = await Promise.all([first, second]);
  const { held, pending } = await locks.query();
  return { ends, left: held.length + pending.length };
}

/**
 * The same, until that has been told, and then the first one's lock is stolen; as often as the environment says. What was
 * told, who waited then, and how they ended, the last time.
 */
async function crossAndSteal({ locks }) {
  const told = [];
  let after;
  let tell;
  let waiting;
  process.on('warning', ({ code, lock, message }) => {
    told.push({ code, lock, message });
    tell();
  });
  for (let times = Number(process.env.TIMES); times > 0; times -= 1) {
    const isTold = new Promise((resolve) => { tell = resolve; });
    const ready = {};
    const both = Promise.all(['a', 'b'].map((name) => new Promise((resolve) => { ready[name] = resolve; })));
    let waits;
    const isFirst = new Promise((resolve) => { waits = resolve; });
    const hold = (mine, other, turn) => locks.request(mine, async () => {
      ready[mine]();
      await both;
      await turn;
      const asked = locks.request(other, () => 'granted');
      waits();
      return asked;
    }).catch(({ name }) => name);
    const ends = [hold('a', 'b', both), hold('b', 'a', isFirst)];
    await isTold;
    waiting = (await locks.query()).pending.map(({ name }) => name).sort();
    await locks.request('a', { steal: true }, () => {});
    after = await Promise.all(ends);
  }
  return { told, waiting, after };
}

/** What looks like it: what nobody waits for, what gives up by itself, what is taken from others. What was granted. */
async function lookAlikes({ locks }) {
  const granted = [];
  const grant = (name) => () => void granted.push(name);
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  let forgotten;
  await locks.request('forgotten', async () => {
    forgotten = locks.request('forgotten', grant('forgotten'));
    await wait(20);
  });
  await forgotten;
  // The second one would close a cycle, but for the signal of the first one.
  const begin = Promise.withResolvers?.() ?? (() => { const all = {}; all.promise = new Promise((resolve) => { all.resolve = resolve; }); return all; })();
  const first = locks.request('a', async () => {
    await begin.promise;
    return locks.request('b', { signal: AbortSignal.timeout(3000) }, () => {}).catch(({ name }) => granted.push(name));
  });
  const second = locks.request('b', async () => {
    begin.resolve();
    await wait(5);
    return locks.request('a', grant('a'));
  });
  await Promise.all([first, second]);
  // Those that do not wait.
  await locks.request('available', () => locks.request('available', { ifAvailable: true }, (lock) => { granted.push(lock); }));
  return granted;
}

describe('deadlocks', () => {
  for (const name of ['node', 'node20', 'deno', 'bun']) {
    test(`on ${name} the last one of those who wait for each other is rejected, and the others go on`, async () => {
      const { ends: [first, second], left } = await evaluateOn(runtimes[name], PROCESS, cross);
      assert.equal(first, 'granted');
      assert.match(second, /^OperationError: deadlock: /);
      assert.match(second.slice('OperationError: '.length), DEADLOCK);
      assert.equal(left, 0);
    });
  }

  for (const name of ['node', 'deno', 'bun']) {
    test(`on ${name} those who wait for each other are told of once where that is asked for, and wait on`, async () => {
      const { after, told, waiting } = await evaluateOn(runtimes[name], { ...PROCESS, NAVLOCK_DEADLOCKS: 'warn', TIMES: '1' }, crossAndSteal);
      assert.deepEqual(waiting, ['a', 'b']);
      assert.equal(told.length, 1);
      assert.match(told[0].message, DEADLOCK);
      assert.equal(told[0].code, 'NAVLOCK_DEADLOCK');
      // Whichever of ours hears of it first.
      const { name: toldOf, ...lock } = told[0].lock;
      assert.ok(['a', 'b'].includes(toldOf), toldOf);
      assert.deepEqual(lock, { mode: 'exclusive', bucket: 'shop' });
      // It ends when somebody ends it, and not before.
      assert.deepEqual(after, ['AbortError', 'granted']);
    });
  }

  test('one that comes again is told again', async () => {
    const { told } = await evaluateOn(runtimes.node, { ...PROCESS, NAVLOCK_DEADLOCKS: 'warn', TIMES: '2' }, crossAndSteal);
    assert.equal(told.length, 2);
    // No time is told that nobody knows.
    for (const { message } of told) assert.doesNotMatch(message, / for 0s/);
  });

  test('what nobody waits for, or gives up by itself, is none', async () => {
    const granted = await evaluateOn(runtimes.node, PROCESS, lookAlikes);
    assert.deepEqual(granted, ['forgotten', 'TimeoutError', 'a', null]);
  });

  test('a request of Node is rejected that waits for a command which waits for its lock', async (context) => {
    const { socket, remove } = openPlace();
    context.after(remove);
    const env = { ...PROCESS, NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket };
    const seen = await evaluateOn(runtimes.node, env, async ({ locks }, program) => {
      const { spawn } = require('node:child_process');
      return locks.request('a', async () => {
        const words = ['run', '--bucket', 'shop', 'b', 'sh', '-c', 'echo held; exec "$0" run --bucket shop a true', program];
        const command = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] });
        let said = '';
        command.stderr.on('data', (data) => { said += data; });
        const ended = new Promise((resolve) => command.on('close', resolve));
        await new Promise((resolve) => command.stdout.once('data', resolve));
        // It waits, and only then is it our turn to.
        while ((await locks.query()).pending.length === 0) await null;
        const told = await locks.request('b', () => 'granted').catch(({ message, name }) => `${name}: ${message}`);
        // As long as we hold our lock: once the command has its own, it has nothing to tell.
        for (const end = Date.now() + 10_000; !said.includes('deadlock:') && Date.now() < end;) {
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        return { ended: () => ended, said: () => said, told };
      }).then(async ({ ended, said, told }) => ({ code: await ended(), said: said(), told }));
    }, program);
    assert.match(seen.told, /^OperationError: deadlock: /);
    // The command goes on when our callback has ended, and was told as well.
    assert.equal(seen.code, 0);
    assert.match(seen.said, /navlock: deadlock: these wait for each other, .*\n(  .*\n){2}/);
  });

  test('a request of Node is told of that a command waits for which came last', async (context) => {
    const { socket, remove } = openPlace();
    context.after(remove);
    const env = { ...PROCESS, NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket };
    // Whichever way it is asked for: it is not the last one, and so is not rejected.
    for (const asked of ['1', 'warn']) {
      const seen = await evaluateOn(runtimes.node, { ...env, NAVLOCK_DEADLOCKS: asked }, async ({ locks }, program) => {
        const { spawn } = require('node:child_process');
        const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
        const folder = mkdtempSync(`${process.env.NAVLOCK_SOCKET}-`);
        const isTold = new Promise((resolve) => process.once('warning', resolve));
        return locks.request('a', async () => {
          const script = 'echo held; until test -e "$1"; do sleep 0.05; done; exec "$0" run --bucket shop a true';
          const words = ['run', '--bucket', 'shop', 'b', 'sh', '-c', script, program, `${folder}/go`];
          const command = spawn(program, words, { stdio: ['ignore', 'pipe', 'ignore'] });
          const ended = new Promise((resolve) => command.on('close', resolve));
          await new Promise((resolve) => command.stdout.once('data', resolve));
          const waits = locks.request('b', () => 'granted');
          // Our own is said to be inside after a second, so that the command comes last for certain.
          while ((await locks.query()).pending.length === 0) await null;
          writeFileSync(`${folder}/go`, '');
          const { code, lock, message } = await isTold;
          const { pending } = await locks.query();
          command.kill();
          const answer = await waits;
          await ended;
          rmSync(folder, { recursive: true });
          return { answer, code, lock, message, pending: pending.map(({ name }) => name).sort() };
        });
      }, program);
      assert.equal(seen.code, 'NAVLOCK_DEADLOCK');
      assert.match(seen.message, /^deadlock: these wait for each other, .*\n( {2}.*\n?){2}/);
      assert.deepEqual(seen.lock, { name: 'b', mode: 'exclusive', bucket: 'shop' });
      // Both wait on until somebody ends one of them.
      assert.deepEqual(seen.pending, ['a', 'b']);
      assert.equal(seen.answer, 'granted');
    }
  });
});
