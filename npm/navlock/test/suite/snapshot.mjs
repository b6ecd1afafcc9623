// Rules 29 to 32: query().

import { equal, ok, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';
import { task } from '../kit/wait.mjs';

const SPEC = '#algorithm-snapshot-state';
const SHARED = { mode: 'shared' };
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const plain = (entries) => entries.map(({ name, mode }) => `${name} ${mode}`);

test('a snapshot shows what all workers hold and wait for', {
  rules: [29], spec: SPEC, needs: ['workers'],
}, async ({ hold, locks, spawnWorker }) => {
  const [one, two] = await Promise.all([spawnWorker(), spawnWorker()]);
  await hold('db', SHARED).granted;
  await (await one.hold('db', SHARED)).granted;
  await two.hold('db');
  await one.hold('db', SHARED);
  hold('db');
  for (const agent of [{ query: () => locks.query() }, one, two]) {
    const { held, pending } = await agent.query();
    equal(plain(held), ['db shared', 'db shared'], 'what is held');
    equal(plain(pending), ['db exclusive', 'db shared', 'db exclusive'], 'what is waited for, in order');
    const [first, second, third] = pending.map(({ clientId }) => clientId);
    ok(new Set([first, second, third]).size === 3, 'three agents wait');
  }
});

test('a snapshot shows what other processes hold and wait for', {
  rules: [29], spec: SPEC, needs: ['processes'],
}, async ({ hold, locks, spawnProcess }) => {
  const other = await spawnProcess();
  await (await other.hold('db')).granted;
  hold('db');
  for (const { held, pending } of [await locks.query(), await other.query()]) {
    equal(plain(held), ['db exclusive'], 'what is held');
    equal(plain(pending), ['db exclusive'], 'what is waited for');
  }
});

test('a snapshot never shows two who exclude each other, nor a gap between them', {
  rules: [29], spec: SPEC, needs: ['workers'],
}, async ({ locks, spawnWorker }) => {
  const workers = await Promise.all([spawnWorker(), spawnWorker()]);
  const work = workers.map((worker) => worker.run(async ({ locks }) => {
    for (let round = 0; round < 200; round++) await locks.request('db', () => {});
  }));
  let busy = true;
  Promise.allSettled(work).then(() => (busy = false));
  while (busy) {
    const { held, pending } = await locks.query();
    ok(held.length <= 1, `${held.length} hold an exclusive lock`);
    ok(held.length === 1 || pending.length === 0, 'nobody holds, and somebody waits');
    await task(); // some answer in a microtask, and would never let the workers be heard
  }
  await Promise.all(work);
});

test('pending requests of a name are in the order in which they were made', {
  rules: [30], spec: SPEC,
}, async ({ hold, locks }) => {
  await hold('db').granted;
  await hold('other').granted;
  const modes = ['shared', 'exclusive', 'exclusive', 'shared', 'exclusive', 'shared', 'shared'];
  for (const mode of modes) {
    hold('db', { mode });
    hold('other', SHARED);
  }
  const { pending } = await locks.query();
  equal(pending.filter(({ name }) => name === 'db').map(({ mode }) => mode), modes, 'the modes');
});

test('a thief that waits for nobody is not pending', { rules: [30, 14], spec: SPEC }, async ({ hold, locks }) => {
  await hold('db').granted;
  hold('db', SHARED);
  hold('db', { steal: true });
  const { held, pending } = await locks.query();
  equal(plain(held), ['db exclusive'], 'what is held');
  equal(plain(pending), ['db shared'], 'what is waited for');
});

test('a snapshot is made of plain objects with exactly name, mode and clientId', {
  rules: [30], spec: '#api-lock-manager-query',
}, async ({ hold, locks }) => {
  await hold('db', SHARED).granted;
  hold('db');
  const state = await locks.query();
  equal(Object.keys(state).sort(), ['held', 'pending'], 'the members of the snapshot');
  same(Object.getPrototypeOf(state), Object.prototype, 'the prototype of the snapshot');
  for (const list of [state.held, state.pending]) {
    ok(Array.isArray(list), 'the lists are arrays');
    same(list.length, 1, 'the length of a list');
    same(Object.getPrototypeOf(list[0]), Object.prototype, 'the prototype of an entry');
    equal(Reflect.ownKeys(list[0]).map(String).sort(), ['clientId', 'mode', 'name'], 'the members of an entry');
    for (const key of Object.keys(list[0])) {
      const descriptor = Object.getOwnPropertyDescriptor(list[0], key);
      equal([descriptor.writable, descriptor.enumerable, descriptor.configurable], [true, true, true], `the property ${key}`);
      same(typeof list[0][key], 'string', `the type of ${key}`);
    }
  }
});

test('a snapshot does not change, and changing it changes nothing', { rules: [30], spec: SPEC }, async ({ hold, locks }) => {
  const holder = hold('db');
  const before = await locks.query();
  before.held[0].name = 'other';
  equal(plain((await locks.query()).held), ['db exclusive'], 'what is held');
  await holder.granted;
  await holder.release();
  same(before.held.length, 1, 'the length of the list of before');
});

test('a snapshot of nothing has two empty lists', { rules: [30], spec: SPEC }, async ({ locks }) => {
  equal(await locks.query(), { held: [], pending: [] }, 'the snapshot');
});

test('a query right after requests sees them', { rules: [31], spec: '#api-lock-manager-query' }, async ({ hold, locks }) => {
  const free = hold('db');
  const waits = hold('db');
  const { held, pending } = await locks.query();
  equal(plain(held), ['db exclusive'], 'what is held');
  equal(plain(pending), ['db exclusive'], 'what is waited for');
  ok(!waits.hasRun, 'the second one waits');
  await free.granted;
});

test('a query in the turn of several changes sees what was before it', {
  rules: [31], spec: '#api-lock-manager-query',
}, async ({ hold, locks }) => {
  const empty = locks.query();
  hold('db');
  const one = locks.query();
  hold('db');
  const two = locks.query();
  const count = ({ held, pending }) => [held.length, pending.length];
  equal((await Promise.all([empty, one, two])).map(count), [[0, 0], [1, 0], [1, 1]], 'held and pending');
});

test('a query from within the callback sees the lock', { rules: [31], spec: '#api-lock-manager-query' }, async ({ locks }) => {
  const { held } = await locks.request('db', () => locks.query());
  equal(plain(held), ['db exclusive'], 'what is held');
});

test('an agent has one client id', { rules: [32], spec: '#api-lock-manager-query' }, async ({ hold, locks }) => {
  await hold('db').granted;
  await hold('other', SHARED).granted;
  hold('db');
  const { held, pending } = await locks.query();
  const ids = new Set([...held, ...pending].map(({ clientId }) => clientId));
  same(ids.size, 1, 'the number of client ids');
  ok([...ids][0].length > 0, 'the client id says something');
});

test('every worker has a client id of its own', {
  rules: [32], spec: '#api-lock-manager-query', needs: ['workers'],
}, async ({ hold, locks, spawnWorker }) => {
  const workers = await Promise.all([spawnWorker(), spawnWorker()]);
  const ids = new Set();
  for (const agent of workers) {
    const lock = await agent.hold('db', SHARED);
    await lock.granted;
    ids.add((await agent.query()).held[0].clientId);
    await lock.release();
  }
  await hold('db', SHARED).granted;
  ids.add((await locks.query()).held[0].clientId);
  same(ids.size, 3, 'the number of client ids');
});

// The specification asks for an opaque string. navlock also promises that nobody can guess it.
test('a client id is a random UUID', {
  rules: [32], spec: '#api-lock-manager-query', needs: ['navlock'],
}, async ({ hold, locks }) => {
  await hold('db').granted;
  const [{ clientId }] = (await locks.query()).held;
  ok(UUID.test(clientId), `the client id is a random UUID: ${clientId}`);
});
