// Two million requests and two hundred thousand names leave nothing behind, in any runtime.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { withCollector } from '../runtimes.mjs';

/** The most bytes by which memory may grow in each part: two bytes for each request. */
const MOST = 1 << 19;

for (const [name, [file, ...flags]] of Object.entries(withCollector)) {
  test(`on ${name} two million requests and two hundred thousand names leave nothing`, { timeout: 120_000 }, async (context) => {
    const lives = fileURLToPath(new URL('lives.mjs', import.meta.url));
    const { stdout } = await promisify(execFile)(file, [...flags, lives, MOST], { timeout: 110_000 });
    const parts = JSON.parse(stdout);
    for (const what of ['heap', 'rss']) {
      // A collector sometimes takes tens of megabytes more, without anything that is kept. But memory that requests
      // leave behind grows in each part. So the smallest growth is compared.
      const growth = parts.slice(1).map((part, index) => part[what] - parts[index][what]);
      context.diagnostic(`${what}: ${growth.join(', ')} bytes`);
      assert.ok(Math.min(...growth) < MOST, `${what} grows by ${growth.join(', ')} bytes`);
    }
  });
}
