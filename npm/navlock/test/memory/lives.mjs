// A process that makes many requests, in several parts. Prints the memory in use after each part, in bytes, as JSON.

import process from 'node:process';

import { createUserAgent } from 'navlock';

/** How many requests and names are used in each part. */
const REQUESTS = 250_000;
const NAMES = 25_000;
const { locks } = createUserAgent({ reach: 'process' });
const { signal } = new AbortController();

async function requests(count) {
  for (let i = 0; i < count; i++) await locks.request('db', { signal }, async () => {});
}

async function names(count, tag) {
  // This many requests are there at once, so that memory has a peak that must be given back.
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

/** The smallest growth from one part to the next. */
const growth = (what) => Math.min(...parts.slice(1).map((part, index) => part[what] - parts[index][what]));

// A collector may take long to find a size that it keeps, the more so beside other work. So there are more parts until
// memory has grown by less than `most` bytes in one of them, as it never does if requests leave something behind.
const most = Number(process.argv[2]);
const parts = [];
while (parts.length < 8 || (parts.length < 24 && (growth('heap') >= most || growth('rss') >= most))) {
  await requests(REQUESTS);
  await names(NAMES, parts.length);
  parts.push(await memory());
}
console.log(JSON.stringify(parts));
process.exit(0);
