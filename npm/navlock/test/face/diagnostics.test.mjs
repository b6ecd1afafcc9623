// The messages to subscribers of Node's diagnostics channels for locks.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { runtimes } from '../runtimes.mjs';
import { evaluate, navlock, run } from './programs.mjs';

/** Makes requests of `locks`, and prints the messages about them in order. */
async function told(locks) {
  const { subscribe } = require('node:diagnostics_channel');
  const lines = [];
  for (const what of ['start', 'grant', 'miss', 'end']) {
    subscribe(`locks.request.${what}`, ({ error, ...rest }) => lines.push({ what, ...rest, error: error?.name }));
  }
  await locks.request('granted', { mode: 'shared' }, () => {});
  await locks.request('failed', async () => { throw new TypeError('as planned'); }).catch(() => {});
  await locks.request('missed', async () => {
    await locks.request('missed', { ifAvailable: true }, () => {});
  });
  await locks.request('-refused', () => {}).catch(() => {});
  let theft;
  await locks.request('stolen', () => (theft = locks.request('stolen', { steal: true }, () => {}))).catch(() => {});
  await theft;
  // Ours publish an end in a microtask, so the end of the theft may come after `theft` has settled.
  while (lines.filter(({ what }) => what === 'end').length < 6) await new Promise(setImmediate);
  console.log(JSON.stringify(lines));
}

/**
 * The messages in the order of their text. Node's own locks publish some of them in another order: they call back
 * inside of `request()`, and publish an end before the promise settles.
 */
const sorted = (printed) => JSON.parse(printed).map((line) => JSON.stringify(line)).sort();

for (const runtime of Object.keys(runtimes)) {
  test(`on ${runtime} as much is told of requests as Node tells of its own`, async () => {
    const flag = runtime === 'deno' ? ['eval'] : ['-e'];
    const words = runtime === 'deno' ? [runtimes.deno[0], 'eval', '--ext=cjs'] : [...runtimes[runtime].filter((word) => word !== 'run'), ...flag];
    const ours = await run([...words, `(${told})(require(${JSON.stringify(navlock)}).locks)`], { env: { NAVLOCK_REACH: 'process' } });
    const node = await run([...runtimes.node, '-e', `(${told})(navigator.locks)`]);
    assert.deepEqual(sorted(ours), sorted(node));
  });
}

test('a subscriber of the start that aborts the signal ends the request', async () => {
  const seen = await evaluate({ NAVLOCK_REACH: 'process' }, async ({ locks }) => {
    const { subscribe } = require('node:diagnostics_channel');
    const controller = new AbortController();
    let release;
    const held = locks.request('db', () => new Promise((resolve) => (release = resolve)));
    subscribe('locks.request.start', () => controller.abort('aborted'));
    const asked = locks.request('db', { signal: controller.signal }, () => 'called').catch((reason) => reason);
    const { pending } = await locks.query();
    release();
    await held;
    return [await asked, pending.length];
  });
  assert.deepEqual(seen, ['aborted', 0]);
});

test('a request that is told to begin is told to end, also where a variable makes no sense', async () => {
  const seen = await evaluate({ NAVLOCK_REACH: 'process', NAVLOCK_STRICT: 'yes' }, async ({ locks }) => {
    const { subscribe } = require('node:diagnostics_channel');
    const seen = [];
    for (const what of ['start', 'end']) subscribe(`locks.request.${what}`, ({ error, name }) => seen.push([what, name, error?.name]));
    await locks.request('db', () => {}).catch(() => {});
    await new Promise(setImmediate);
    return seen;
  });
  assert.deepEqual(seen, [['start', 'db', null], ['end', 'db', 'TypeError']]);
});
