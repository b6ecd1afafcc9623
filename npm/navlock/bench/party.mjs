// One of two that take a lock in turn: a worker or a process.

import process from 'node:process';
import { isMainThread, parentPort, workerData } from 'node:worker_threads';

import { subjects } from './subjects.mjs';

const [count, say, hear] = isMainThread
  ? [Number(process.argv[2]), (what) => process.send(what), (what) => process.on('message', what)]
  : [workerData.count, (what) => parentPort.postMessage(what), (what) => parentPort.on('message', what)];

const { request } = await subjects[process.env.BENCH_SUBJECT].open();
// The first lock opens whatever there is to be opened.
await request(`party ${process.pid}`, {}, async () => {});

hear(async (what) => {
  if (what !== 'go') return;
  // The next one is asked for before this one is there, so that nobody gets two in a row.
  let last = Promise.resolve();
  for (let i = 0; i < count; i++) {
    const next = request('db', {}, async () => {});
    await last;
    last = next;
  }
  await last;
  say('done');
});
say('ready');
