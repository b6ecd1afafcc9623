// Looking: who holds what, who waits for it, and what happens meanwhile.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

import { createUserAgent, hold, look } from 'navlock';

import { startEtcd } from '../kit/etcd.mjs';
import { openPlace, program } from '../kit/place.mjs';
import { deferred } from '../kit/wait.mjs';
import { runtimes } from '../runtimes.mjs';
import { evaluate, evaluateOn, navlock, run } from './programs.mjs';

/** A lock manager that no other test sees. */
const open = () => createUserAgent({ reach: 'process', private: true }).locks;

/** The next news for which `isIt` returns true. */
async function next(news, isIt) {
  for (;;) {
    const { value, done } = await news.next();
    if (done) throw new Error('the look has ended');
    if (isIt(value)) return value;
  }
}

/** The events about names, up to the one for which `isLast` returns true. */
async function until(news, isLast) {
  const seen = [];
  await next(news, (value) => {
    if (value.name !== undefined) seen.push(`${value.event} ${value.name} ${value.mode}`);
    return isLast(value);
  });
  return seen;
}

test('what a request is for is seen by all who look, and whatever is no text is ignored', async () => {
  const locks = open();
  const release = deferred();
  const wanted = [['a', { why: 'nightly' }], ['a', { mode: 'shared', why: 'later' }], ['b', { why: 7 }], ['c', { why: Symbol('no') }], ['d', {}]];
  const all = wanted.map(([name, options]) => locks.request(name, options, () => release.promise));
  const { value: picture } = await look(locks).next();
  const told = ({ name, why }) => [name, why ?? ''];
  assert.deepEqual(picture.held.map(told).sort(), [['a', 'nightly'], ['b', ''], ['c', ''], ['d', '']]);
  assert.deepEqual(picture.pending.map(told), [['a', 'later']]);
  release.resolve();
  await Promise.all(all);
  // It is asked for after the members that the standard has.
  const asked = [];
  await locks.request('e', new Proxy({}, { get: (_, member) => void asked.push(member) }), () => {});
  assert.deepEqual(asked, ['ifAvailable', 'mode', 'signal', 'steal', 'why']);
});

for (const [name, words] of Object.entries(runtimes)) {
  test(`on ${name} who looks sees what there is, and then what happens in order`, async () => {
    const seen = await evaluateOn(words, {}, async ({ createUserAgent, hold, look }) => {
      const { locks } = createUserAgent({ reach: 'process', private: true });
      const held = await hold(locks, 'a\ud800');
      const news = look(locks);
      const { value: picture } = await news.next();
      const waiting = locks.request('a\ud800', { mode: 'shared' }, () => {});
      await held.release();
      await waiting;
      const events = [];
      for await (const told of news) {
        events.push(`${told.event} ${told.mode}`);
        if (told.event === 'released' && told.mode === 'shared') break;
      }
      const [entry] = picture.held;
      const isWhole = entry.bucket.length > 0 && entry.clientId.length === 36 && entry.ageMs >= 0 && picture.at > 1e12;
      return { held: [entry.name === 'a\ud800', entry.mode, isWhole], pending: picture.pending, events, after: (await news.next()).done };
    });
    assert.deepEqual(seen, {
      held: [true, 'exclusive', true],
      pending: [],
      events: ['requested shared', 'released exclusive', 'granted shared', 'released shared'],
      after: true,
    });
  });

  test(`on ${name} who looks sees what other processes hold, with whose it is`, async (context) => {
    const { socket, remove } = openPlace();
    context.after(remove);
    const env = { NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket, NAVLOCK_BUCKET: 'face' };
    const command = spawn(program, ['run', '--socket', socket, '--bucket', 'face', '--why', 'to see', 'db', '--', 'cat'], { stdio: ['pipe', 'pipe', 'ignore'] });
    context.after(() => command.stdin.end());
    command.stdin.write('held\n');
    await once(command.stdout, 'data');
    const seen = await evaluateOn(words, env, async ({ locks, look }) => {
      const controller = new AbortController();
      const { value: { held, leftOut, missed } } = await look(locks, { name: 'db', signal: controller.signal }).next();
      const ended = look(locks, { signal: controller.signal });
      await ended.next();
      const waits = ended.next().catch((reason) => reason);
      controller.abort('enough');
      const [{ name, mode, why, pid, fencingToken }] = held;
      return { name, mode, why, pid, hasToken: BigInt(fencingToken) > 0n, leftOut, missed, reason: await waits };
    });
    assert.ok(seen.pid > 0);
    assert.deepEqual({ ...seen, pid: 0 }, { name: 'db', mode: 'exclusive', why: 'to see', pid: 0, hasToken: true, leftOut: 0, missed: 0, reason: 'enough' });
  });

  test(`on ${name} a look keeps the process alive only while somebody waits for its news`, async () => {
    const env = { NAVLOCK_REACH: 'process' };
    const source = (body) => `const { locks, look } = require(${JSON.stringify(navlock)}); (async () => { ${body} })();`;
    // The program ends by itself, although it has not ended its look.
    await runToItsEnd(words, env, source('const news = look(locks); await news.next(); globalThis.kept = news;'));
    // The event is caused by a timer, which does not keep the process alive.
    const said = await runToItsEnd(words, env, source(`
      const news = look(locks, { name: 'db' });
      await news.next();
      const timer = setTimeout(() => locks.request('db', () => {}), 300);
      typeof timer === 'object' ? timer.unref() : Deno.unrefTimer(timer);
      for await (const { event } of news) if (event === 'granted') break;
      console.log('seen');
    `));
    assert.equal(said.trim(), 'seen');
  });
}

async function runToItsEnd(words, env, source) {
  const { run } = await import('./programs.mjs');
  const [file, ...rest] = words;
  const flags = rest.filter((word) => word.startsWith('--') && !/^--(allow-all|no-prompt|quiet)$/.test(word));
  const before = path.basename(file) === 'deno' ? ['eval', '--ext=cjs', ...flags] : [...flags, '-e'];
  return run([file, ...before, source], { env });
}

test('a slow looker is told how much it missed, and the state by then', async () => {
  const locks = open();
  const news = look(locks);
  await news.next();
  const many = 20_000;
  for (let count = 0; count < many; count++) await locks.request('db', () => {});
  const held = await hold(locks, 'last');
  const picture = await next(news, ({ event }) => event === 'picture');
  assert.ok(picture.missed > many, `${picture.missed} were missed`);
  assert.deepEqual(picture.held.map(({ name }) => name), ['last']);
  await held.release();
  assert.deepEqual(await until(news, ({ event }) => event === 'released'), ['released last exclusive']);
  await news.return();
});

test('a look at one name, or at all buckets', async () => {
  const userAgent = createUserAgent({ reach: 'process', private: true, bucket: 'one' });
  const other = userAgent.bucket('other').locks;
  const one = look(userAgent.locks, { name: 'db' });
  const all = look(userAgent.locks, { allBuckets: true });
  await Promise.all([one.next(), all.next()]);
  await other.request('db', () => {});
  await userAgent.locks.request('else', () => {});
  await userAgent.locks.request('db', () => {});
  const isLast = ({ bucket, event, name }) => event === 'released' && bucket === 'one' && name === 'db';
  assert.deepEqual(await until(one, isLast), ['granted db exclusive', 'released db exclusive']);
  assert.deepEqual(await until(all, isLast), [
    'granted db exclusive', 'released db exclusive', 'granted else exclusive', 'released else exclusive',
    'granted db exclusive', 'released db exclusive',
  ]);
  await Promise.all([one.return(), all.return()]);
});

test('calls that wait for news are answered in order, and told when the look ends', async () => {
  const locks = open();
  const news = look(locks, { name: 'db' });
  const [picture, first, second] = [news.next(), news.next(), news.next()];
  assert.equal((await picture).value.event, 'picture');
  await locks.request('db', () => {});
  const words = [(await first).value, (await second).value].map(({ event }) => event);
  assert.deepEqual(words.filter((word) => word !== 'agent-came'), words.length === 2 && words[0] === 'agent-came' ? ['granted'] : ['granted', 'released']);
  const waits = [news.next(), news.next(), news.next(), news.next(), news.next()];
  assert.deepEqual(await news.return(7), { value: 7, done: true });
  assert.equal((await waits[4]).done, true);
  assert.deepEqual(await news.next(), { value: undefined, done: true });
  await assert.rejects(look(locks).throw(new RangeError('mine')), RangeError);
});

test('a look that ends tells so to who waited before it is told that it has ended', async () => {
  const order = [];
  const news = look(open());
  await news.next();
  await Promise.all([news.next().then(() => order.push('next')), news.return().then(() => order.push('return'))]);
  assert.deepEqual(order, ['next', 'return']);
});

test('a look ends with its user agent, of which none begins any more', async () => {
  const userAgent = createUserAgent({ reach: 'process', private: true });
  const { locks } = userAgent;
  const news = look(locks);
  await news.next();
  const [waits, late] = [news.next(), look(locks)];
  userAgent.close();
  assert.equal((await waits).done, true);
  assert.equal((await news.next()).done, true);
  await assert.rejects(late.next(), { name: 'OperationError' });
});

test('a process ends while it looks and nobody waits for the news, or its user agent was closed', async () => {
  const program = (rest) => `
    const { createUserAgent, look } = require(${JSON.stringify(navlock)});
    (async () => {
      const userAgent = createUserAgent({ reach: 'process', private: true });
      const news = look(userAgent.locks);
      await news.next();
      ${rest}
      console.log('ends');
    })();`;
  for (const rest of ['', 'news.next(); userAgent.close();', 'news.next(); news.return();']) {
    assert.equal(await run([process.execPath, '-e', program(rest)]), 'ends\n', rest);
  }
});

test('a look that nobody has any more ends', { skip: process.platform === 'linux' ? false : 'threads are not to be seen' }, async () => {
  const program = `
    const { readFileSync, readdirSync } = require('node:fs');
    const { createUserAgent, look } = require(${JSON.stringify(navlock)});
    const isLooking = (id) => {
      try {
        return readFileSync('/proc/self/task/' + id + '/comm', 'utf8') === 'navlock-look\\n';
      } catch {
        return false; // the thread has ended
      }
    };
    const looking = () => readdirSync('/proc/self/task').filter(isLooking).length;
    (async () => {
      const { locks } = createUserAgent({ reach: 'process', private: true });
      await look(locks).next();
      console.log(looking());
      while (looking() > 0) {
        gc();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      console.log('ends');
    })();`;
  assert.equal(await run([process.execPath, '--expose-gc', '-e', program]), '1\nends\n');
});

test('a signal ends a look with its reason, once', async () => {
  const locks = open();
  const controller = new AbortController();
  const news = look(locks, { signal: controller.signal });
  await news.next();
  const waits = news.next();
  controller.abort();
  await assert.rejects(waits, { name: 'AbortError' });
  assert.equal((await news.next()).done, true);
  const late = look(locks, { signal: AbortSignal.abort('before') });
  assert.equal(await late.next().catch((reason) => reason), 'before');
  assert.equal((await late.next()).done, true);
  const busy = look(locks, { signal: AbortSignal.timeout(50) });
  await assert.rejects(async () => {
    for await (const { event } of busy) assert.notEqual(event, 'lost');
  }, { name: 'TimeoutError' });
});

test('wrong arguments are refused', async () => {
  const locks = open();
  for (const options of [null, 7, { allBuckets: 1 }, { signal: {} }, { name: Symbol('db') }]) {
    assert.throws(() => look(locks, options), TypeError);
  }
  await assert.rejects(look({}).next(), TypeError);
  const { constructor } = look(locks);
  assert.throws(() => new constructor(), TypeError);
});

test('a worker that ends while it looks leaves others alone', async () => {
  const source = `
    const { locks, look } = require(${JSON.stringify(navlock)});
    (async () => { for await (const { event } of look(locks)) require('node:worker_threads').parentPort.postMessage(event); })();
  `;
  const worker = new Worker(source, { eval: true, env: { ...process.env, NAVLOCK_REACH: 'process', NAVLOCK_BUCKET: 'of-a-worker' } });
  const [event] = await once(worker, 'message');
  assert.equal(event, 'picture');
  await worker.terminate();
  const { locks } = createUserAgent({ reach: 'process', bucket: 'of-a-worker' });
  await locks.request('db', () => {});
});

test('a looker starts no broker, and sees one that others start', async (context) => {
  const { socket, remove } = openPlace();
  context.after(remove);
  const { locks } = createUserAgent({ reach: 'machine', socket, bucket: 'face' });
  const news = look(locks);
  const { value: { event, held, pending, owned } } = await news.next();
  assert.deepEqual({ event, held, pending, owned }, { event: 'picture', held: [], pending: [], owned: [] });
  assert.ok(!existsSync(socket), 'there is a broker');
  const command = spawn(program, ['run', '--socket', socket, '--bucket', 'face', 'db', '--', 'cat'], { stdio: ['pipe', 'ignore', 'ignore'] });
  context.after(() => command.stdin.end());
  await next(news, ({ event, name, held }) => event === 'granted' && name === 'db' || held?.some(({ name }) => name === 'db'));
  await news.return();
});

test('64 look at a broker at a time, and the next one is told that it cannot', async (context) => {
  const { socket, remove } = openPlace();
  context.after(remove);
  const { locks } = createUserAgent({ reach: 'machine', socket, bucket: 'face' });
  // From here on a broker runs, for as long as somebody holds a lock.
  const held = await hold(locks, 'db');
  const looks = Array.from({ length: 64 }, () => look(locks));
  const pictures = await Promise.all(looks.map((news) => news.next()));
  assert.ok(pictures.every(({ value }) => value.event === 'picture'));
  await assert.rejects(look(locks).next(), { name: 'OperationError' });
  await looks.pop().return();
  // The broker may hear of the end of a look later than this process.
  for (;;) {
    const news = look(locks);
    const told = await news.next().catch(({ name }) => name);
    if (told === 'OperationError') continue;
    assert.equal(told.value.event, 'picture');
    await news.return();
    break;
  }
  await Promise.all(looks.map((news) => news.return()));
  await held.release();
});

test('a look can be ended by `await using`', { skip: typeof Symbol.asyncDispose === 'symbol' ? false : 'there is no such symbol' }, async () => {
  const news = look(open());
  await news.next();
  const waits = news.next();
  assert.equal(await news[Symbol.asyncDispose](), undefined);
  assert.equal((await waits).done, true);
});

test('events are what `navlock watch --json` tells', async (context) => {
  const { socket, remove } = openPlace();
  context.after(remove);
  const { locks } = createUserAgent({ reach: 'machine', socket, bucket: 'face' });
  // From here on a broker runs.
  await locks.query();
  const watch = spawn(program, ['watch', '--json', '--socket', socket, '--bucket', 'face'], { stdio: ['ignore', 'pipe', 'inherit'] });
  context.after(() => watch.kill());
  const lines = createInterface({ input: watch.stdout })[Symbol.asyncIterator]();
  const news = look(locks);
  await news.next();
  // When both have seen this lock, both have begun, and so both see when it is released, and everything that follows.
  const begins = spawn(program, ['run', '--socket', socket, '--bucket', 'face', 'begin', '--', 'cat'], { stdio: ['pipe', 'ignore', 'ignore'] });
  const isBegun = ({ event, name }) => name === 'begin' && (event === 'held' || event === 'granted');
  const watched = { next: async () => ({ value: JSON.parse((await lines.next()).value), done: false }) };
  await Promise.all([next(news, isBegun), next(watched, isBegun)]);
  // What one of them sees as an event before this one, the other may have seen in its first picture.
  const isOver = (of) => ({ event, name }) => name === of && (event === 'released' || event === 'recalled');
  begins.stdin.end();
  await Promise.all([next(news, isOver('begin')), next(watched, isOver('begin'))]);
  await evaluate({ NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket, NAVLOCK_BUCKET: 'face' }, ({ locks }) => locks.request('db', { steal: true }, () => 'done'));
  const untilGone = async (told) => {
    const all = [];
    await next(told, (value) => {
      const { at, ...rest } = value;
      assert.ok(Math.abs(at - Date.now()) < 60_000);
      all.push(rest);
      return isOver('db')(value);
    });
    return all;
  };
  const [ours, theirs] = await Promise.all([untilGone(news), untilGone(watched)]);
  assert.deepEqual(ours, theirs);
  assert.ok(ours.some(({ event }) => event === 'granted' || event === 'owned'));
  await news.return();
});

test('a looker at a broker of etcd sees the locks of other machines', async (context) => {
  const [ours, theirs] = [openPlace(), openPlace()];
  const etcd = await startEtcd(ours.folder);
  context.after(() => {
    ours.remove();
    theirs.remove();
    etcd.kill('SIGKILL');
  });
  const envs = [ours, theirs].map(({ folder, socket }) => {
    const config = path.join(folder, 'config.toml');
    writeFileSync(config, `[stores.main]\netcd = ["${etcd.endpoint}"]\n`);
    return { NAVLOCK_BUCKET: 'shop', NAVLOCK_CONFIG: config, NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: `${socket}.store-main` };
  });
  const command = spawn(program, ['run', 'db', '--', 'cat'], { env: { ...process.env, ...envs[1] }, stdio: ['pipe', 'pipe', 'ignore'] });
  context.after(() => command.stdin.end());
  command.stdin.write('held\n');
  await once(command.stdout, 'data');
  const seen = await evaluateOn(runtimes.node, envs[0], async ({ locks, look }) => {
    await locks.query();
    for await (const { event, held } of look(locks)) {
      if (event === 'picture' && held.length > 0) return held.map(({ name, mode, bucket }) => [name, mode, bucket]);
    }
  });
  assert.deepEqual(seen, [['db', 'exclusive', 'shop']]);
});
