// A tab of PGlite. When its worker is the leader, the worker opens the database for all tabs. For each line of the
// input the tab adds a row, and prints how many rows there are.
//
//     node pglite.mjs FOLDER

import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';

import { PGliteWorker } from '@electric-sql/pglite/worker';

import { answer, asked, isLeader, lead } from './candidate.mjs';
import { Worker } from './web-worker.mjs';

const worker = new Worker(new URL('pglite-worker.mjs', import.meta.url));
// Not by PGlite's own message, which does not come if the worker leads before the tab listens.
worker.addEventListener('message', ({ data }) => data.type === 'opens' && lead());
const tab = await PGliteWorker.create(worker, { id: 'work', dataDir: process.argv[2] });
// The worker, which is another thread, requests the lock. This thread sees the request in a query.
const waits = ({ pending }) => pending.some(({ name }) => name === 'pglite-election-lock:work');
while (!isLeader() && !waits(await navigator.locks.query())) await delay(5);
await asked();
answer(async (name) => {
  await tab.exec('CREATE TABLE IF NOT EXISTS tasks (name text)');
  await tab.query('INSERT INTO tasks VALUES ($1)', [name]);
  return (await tab.query('SELECT name FROM tasks')).rows.length;
});
