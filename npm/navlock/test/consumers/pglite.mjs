// A tab of PGlite: its worker opens the database, for all tabs, when it is the leader. For each line that
// it is told it adds a row, and says how many there are.
//
//     node pglite.mjs FOLDER

import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';

import { PGliteWorker } from '@electric-sql/pglite/worker';

import { answer, asked, isLeader, lead } from './candidate.mjs';
import { Worker } from './web-worker.mjs';

const worker = new Worker(new URL('pglite-worker.mjs', import.meta.url));
// Not by what PGlite tells of it, which it does not do if the worker leads before the tab listens.
worker.addEventListener('message', ({ data }) => data.type === 'opens' && lead());
const tab = await PGliteWorker.create(worker, { id: 'work', dataDir: process.argv[2] });
// It is the worker that asks, another thread, of which this one sees the request.
const waits = ({ pending }) => pending.some(({ name }) => name === 'pglite-election-lock:work');
while (!isLeader() && !waits(await navigator.locks.query())) await delay(5);
await asked();
answer(async (name) => {
  await tab.exec('CREATE TABLE IF NOT EXISTS tasks (name text)');
  await tab.query('INSERT INTO tasks VALUES ($1)', [name]);
  return (await tab.query('SELECT name FROM tasks')).rows.length;
});
