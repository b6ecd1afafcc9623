// Rules 23 and 24: names are any JavaScript strings, except those with '-' in front.

import { equal, ok, rejectsWithDOMException, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';

const LONE = ['\ud800', '\udbff', '\udc00', '\udfff', 'a\ud83d', '\ude00b', '\ude00\ud83d'];
const SPEC = '#resource-names';

test('names that differ in a lone surrogate are different', { rules: [23], spec: SPEC }, async ({ hold }) => {
  const holds = [...LONE, '\ufffd', 'a\ufffd', '\ufffdb', '\ufffd\ufffd'].map((name) => hold(name));
  await Promise.all(holds.map(({ granted }) => granted));
});

test('a lock tells a name with lone surrogates unchanged', { rules: [23], spec: SPEC }, async ({ locks }) => {
  for (const name of LONE) {
    ok(await locks.request(name, (lock) => lock.name === name), `the name ${escaped(name)} comes back`);
  }
});

test('a snapshot tells names with lone surrogates unchanged', { rules: [23, 30], spec: SPEC }, async ({ hold, locks }) => {
  for (const name of LONE) {
    hold(name);
    hold(name);
  }
  const { held, pending } = await locks.query();
  const told = (entries) => entries.map(({ name }) => escaped(name)).sort();
  equal(told(held), LONE.map(escaped).sort(), 'what is held');
  equal(told(pending), LONE.map(escaped).sort(), 'what is waited for');
});

test('names with lone surrogates mean the same to other agents', {
  rules: [23], spec: SPEC, needs: ['workers'],
}, async ({ hold, spawnWorker }) => {
  const worker = await spawnWorker();
  await hold('\ud800').granted;
  same(await worker.isFree('\ud800'), false, 'the name itself is free');
  ok(await worker.isFree('\ud801'), 'another lone surrogate is free');
  ok(await worker.isFree('\ufffd'), 'the replacement character is free');
});

test('the empty name, NUL and whatever looks alike are names of their own', { rules: [23], spec: SPEC }, async ({ hold, locks }) => {
  const names = ['', '\0', 'a', 'a\0', 'a\0b', 'A', ' a', 'é', 'e\u0301', '\u{1f600}', '\ufeff', '\uffff', '__proto__', 'constructor'];
  const holds = names.map((name) => hold(name));
  for (const [index, { granted }] of holds.entries()) same((await granted).name, names[index], 'the name of the lock');
  const { held } = await locks.query();
  equal(held.map(({ name }) => escaped(name)).sort(), names.map(escaped).sort(), 'what is held');
});

test('a long name is a name', { rules: [23], spec: SPEC }, async ({ isFree, locks }) => {
  const name = 'n'.repeat(10_000);
  await locks.request(name, async (lock) => {
    same(lock.name.length, name.length, 'the length of its name');
    ok(await isFree(`${name}.`), 'one that is longer by a character is free');
  });
});

test('only a hyphen in front is reserved', { rules: [24], spec: SPEC }, async ({ locks }) => {
  for (const name of ['-', '-a', '--', '-\ud800']) {
    await rejectsWithDOMException(locks.request(name, () => {}), 'NotSupportedError', `the name ${escaped(name)}`);
  }
  for (const name of ['a-', ' -', '\u2010a', '\uff0da', '\u2212', '\0-', '\ufeff-']) {
    ok(await locks.request(name, (lock) => lock.name === name), `the name ${escaped(name)} is granted`);
  }
});

/** Each code unit that is not plain, by its number: lone surrogates cannot be printed. */
function escaped(name) {
  return name.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
