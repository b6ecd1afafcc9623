// Buckets and user agents that are used once leave nothing behind.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { openPlace } from '../kit/place.mjs';
import { withCollector } from '../runtimes.mjs';

/**
 * The most bytes that may be left of each bucket. An open bucket has 8.6 KB, and an object of it some hundred bytes.
 */
const MOST = { heap: 100, rss: 2048 };

async function live(context, [file, ...flags], count, kind, env) {
  const tenants = fileURLToPath(new URL('tenants.mjs', import.meta.url));
  const { stdout } = await promisify(execFile)(file, [...flags, tenants, count, kind], { timeout: 110_000, env: { ...process.env, ...env } });
  const { served, parts } = JSON.parse(stdout);
  assert.equal(served, count);
  for (const what of ['heap', 'rss']) {
    const growth = parts.slice(1).map((part, index) => Math.round((part[what] - parts[index][what]) / (count / 4)));
    context.diagnostic(`${what}: ${growth.join(', ')} bytes for each`);
    assert.ok(Math.min(...growth) < MOST[what], `${what} grows by ${growth.join(', ')} bytes for each`);
  }
}

test('a process uses more buckets than a broker takes at once, one after the other', { timeout: 120_000 }, async (context) => {
  const { socket, remove } = openPlace();
  context.after(remove);
  await live(context, withCollector.node, 68_000, 'bucket', { NAVLOCK_REACH: 'machine', NAVLOCK_SOCKET: socket, NAVLOCK_BUCKET: 'tenants' });
});

for (const [name, command] of Object.entries(withCollector)) {
  for (const kind of ['bucket', 'user agent', 'private']) {
    test(`on ${name} each ${kind === 'private' ? 'private user agent' : kind} of many that are used once leaves nothing`, { timeout: 120_000 }, async (context) => {
      await live(context, command, 12_000, kind, { NAVLOCK_REACH: 'process', NAVLOCK_BUCKET: 'tenants' });
    });
  }
}
