// Deadlocks: requests that would wait for ever, because they wait for others that wait for the locks held around them.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { openPlace, program } from '../kit/place.mjs';
import { runtimes } from '../runtimes.mjs';
import { evaluateOn } from './programs.mjs';

const PROCESS = { NAVLOCK_BUCKET: 'shop', NAVLOCK_REACH: 'process', NAVLOCK_DEADLOCKS: '1' };

const DEADLOCK = /^deadlock: these wait for each other, and none goes on unless one of them ends\n {2}\S.* holds "b" .* inside it waits for "a" .*\n/;

/**
 * Two callbacks request each other's lock, the second callback last. Returns how the requests ended, and how many locks
 * and requests are left.
 */
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
 * Makes the same deadlock, and steals the lock of the first callback once the deadlock was reported. Does this as often
 * as the environment says. Returns all warnings, and, of the last time, the names for which requests waited and how the
 * requests ended.
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

/**
 * Makes waits that look like deadlocks: a request for which nobody waits, one that its signal ends, and one that does
 * not wait. Returns what was granted.
 */
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
  // The second request would close a cycle, but the first one has a signal that ends it.
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
  // A request that does not wait.
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
      // Either request may hear of the deadlock first. The warning names the one that does.
      const { name: toldOf, ...lock } = told[0].lock;
      assert.ok(['a', 'b'].includes(toldOf), toldOf);
      assert.deepEqual(lock, { mode: 'exclusive', bucket: 'shop' });
      // The deadlock lasts until somebody ends it, here the thief.
      assert.deepEqual(after, ['AbortError', 'granted']);
    });
  }

  test('one that comes again is told again', async () => {
    const { told } = await evaluateOn(runtimes.node, { ...PROCESS, NAVLOCK_DEADLOCKS: 'warn', TIMES: '2' }, crossAndSteal);
    assert.equal(told.length, 2);
    // A report has no time if nobody knows the time.
    for (const { message } of told) assert.doesNotMatch(message, / for 0s/);
  });

  test('a forgotten request or one that gives up by itself is no deadlock', async () => {
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
        // The command waits first. Only then do we request its lock.
        while ((await locks.query()).pending.length === 0) await null;
        const told = await locks.request('b', () => 'granted').catch(({ message, name }) => `${name}: ${message}`);
        // We hold our lock until the command has reported the deadlock: with that lock the command would report nothing.
        for (const end = Date.now() + 10_000; !said.includes('deadlock:') && Date.now() < end;) {
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        return { ended: () => ended, said: () => said, told };
      }).then(async ({ ended, said, told }) => ({ code: await ended(), said: said(), told }));
    }, program);
    assert.match(seen.told, /^OperationError: deadlock: /);
    // The command was told of the deadlock as well, and went on when our callback had ended.
    assert.equal(seen.code, 0);
    assert.match(seen.said, /navlock: deadlock: these wait for each other, .*\n(  .*\n){2}/);
  });

  test('a request of Node is told of that a command waits for which came last', async (context) => {
    const { socket, remove } = openPlace();
    context.after(remove);
    const env = { ...PROCESS, NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket };
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
          const waits = locks.request('b', () => 'granted').catch(({ message, name }) => `${name}: ${message}`);
          // Our request is known to be inside our lock only after a second, so the command certainly comes last.
          while ((await locks.query()).pending.length === 0) await null;
          writeFileSync(`${folder}/go`, '');
          if (process.env.NAVLOCK_DEADLOCKS === '1') return { answer: await waits };
          const { code, lock, message } = await isTold;
          const { pending } = await locks.query();
          command.kill();
          const answer = await waits;
          await ended;
          rmSync(folder, { recursive: true });
          return { answer, code, lock, message, pending: pending.map(({ name }) => name).sort() };
        });
      }, program);
      if (asked === '1') {
        // It is the one that is to fail, though the command came last.
        assert.match(seen.answer, /^OperationError: deadlock: /);
        continue;
      }
      assert.equal(seen.code, 'NAVLOCK_DEADLOCK');
      assert.match(seen.message, /^deadlock: these wait for each other, .*\n( {2}.*\n?){2}/);
      assert.deepEqual(seen.lock, { name: 'b', mode: 'exclusive', bucket: 'shop' });
      // Both requests waited on until one of them was ended.
      assert.deepEqual(seen.pending, ['a', 'b']);
      assert.equal(seen.answer, 'granted');
    }
  });
});
