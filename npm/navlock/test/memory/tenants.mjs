// A program with a bucket for each of its tenants, more buckets than a broker takes at once. Prints how many tenants
// were served, and the memory in use after each quarter of them, in bytes, as JSON.

import process from 'node:process';

import { createUserAgent } from 'navlock';

const [count, kind] = [Number(process.argv[2]), process.argv[3]];
const shared = createUserAgent({ reach: process.env.NAVLOCK_REACH });
const locksOf = {
  bucket: (tenant) => shared.bucket(tenant).locks,
  'user agent': (tenant) => createUserAgent({ bucket: tenant }).locks,
  private: () => createUserAgent({ reach: 'process', private: true }).locks,
}[kind];

let served = 0;
const parts = [];
for (let tenant = 1; tenant <= count; tenant++) {
  await locksOf(`tenant ${tenant}`).request('db', () => served++);
  if (tenant % (count / 4) === 0) parts.push(await memory());
}
console.log(JSON.stringify({ served, parts }));
process.exit(0);

async function memory() {
  for (let i = 0; i < 5; i++) {
    if (globalThis.Bun) Bun.gc(true);
    else globalThis.gc();
    await new Promise((resolve) => setTimeout(resolve, 10)); // for finalizers, which run in tasks
  }
  const { heapUsed: heap, rss } = process.memoryUsage();
  return { heap, rss };
}
