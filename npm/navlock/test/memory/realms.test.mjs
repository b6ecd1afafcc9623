// Realms end with their contexts, and not before.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { withCollector } from '../runtimes.mjs';

const run = async ([file, ...flags]) => (await promisify(execFile)(file, flags, { timeout: 60_000 })).stdout;

for (const name of ['node', 'node20']) {
  test(`on ${name} files that run in contexts of their own are collected, and what they left held is free`, { timeout: 60_000 }, async () => {
    const { files, ...found } = JSON.parse(await run([...withCollector[name], fileURLToPath(new URL('realms.mjs', import.meta.url))]));
    assert.ok(files > 10);
    // None or some of the contexts were collected before.
    assert.ok(found.heldBefore <= files);
    assert.deepEqual(found, { heldBefore: found.heldBefore, left: 0, held: 0, pending: 0, isFree: true });
  });
}

for (const name of ['node', 'node20']) {
  test(`on ${name} what a copy of the module holds stays held, although nobody has the copy, as in a bundle that has run`, { timeout: 60_000 }, async () => {
    const program = fileURLToPath(new URL('realms.mjs', import.meta.url));
    const { files, heldBefore, held, left, pending } = JSON.parse(await run([...withCollector[name], program, 'keep']));
    assert.deepEqual({ heldBefore, held, left, pending }, { heldBefore: files, held: files, left: files, pending: files });
  });
}
