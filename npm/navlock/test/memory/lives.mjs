// A process that lives long: prints what it has in memory after each part of its life. In bytes, as
// JSON.

import process from 'node:process';

import { createUserAgent } from 'navlock';

/** In each part. */
const REQUESTS = 250_000;
const NAMES = 25_000;
const { locks } = createUserAgent({ reach: 'process' });
const { signal } = new AbortController();

async function requests(count) {
  for (let i = 0; i < count; i++) await locks.request('db', { signal }, async () => {});
}

async function names(count, tag) {
  // As many as that are there at once, so that there is a peak to come down from.
  const crowd = 1000;
  for (let i = 0; i < count; i += crowd) {
    await Promise.all(Array.from({ length: crowd }, (_, j) => locks.request(`${tag} ${i + j}`, async () => {})));
  }
}

function collect() {
  if (globalThis.Bun) Bun.gc(true);
  else globalThis.gc();
}

async function memory() {
  for (let i = 0; i < 5; i++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 10)); // for finalizers, which run in tasks
  }
  const { heapUsed: heap, rss } = process.memoryUsage();
  return { heap, rss };
}

const parts = [];
for (let part = 0; part < 8; part++) {
  await requests(REQUESTS);
  await names(NAMES, part);
  parts.push(await memory());
}
console.log(JSON.stringify(parts));
process.exit(0);
