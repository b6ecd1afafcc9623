// What the addon does to the process that loads it.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import process from 'node:process';
import { test } from 'node:test';

import { run } from './programs.mjs';

const navlock = createRequire(import.meta.url).resolve('navlock');

test('an addon that only a worker had stays loaded: threads of it may be running', {
  skip: process.platform !== 'linux' && 'it is read from /proc',
}, async () => {
  const program = `
    const ask = ${JSON.stringify(`require(${JSON.stringify(navlock)}).locks.request('db', () => {})`)};
    const isLoaded = () => require('node:fs').readFileSync('/proc/self/maps', 'utf8').includes('navlock.node');
    const before = isLoaded();
    new (require('node:worker_threads').Worker)(ask, { eval: true }).on('exit', () => console.log(before, isLoaded()));
  `;
  assert.equal((await run([process.execPath, '-e', program], { env: { NAVLOCK_REACH: 'process' } })).trim(), 'false true');
});
