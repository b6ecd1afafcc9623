// One of two that take a lock in turn: a worker or a process.

import process from 'node:process';
import { isMainThread, parentPort, workerData } from 'node:worker_threads';

import { subjects } from './subjects.mjs';

const [count, say, onMessage] = isMainThread
  ? [Number(process.argv[2]), (what) => process.send(what), (what) => process.on('message', what)]
  : [workerData.count, (what) => parentPort.postMessage(what), (what) => parentPort.on('message', what)];

const { request } = await subjects[process.env.BENCH_SUBJECT].open();
// The first lock opens whatever there is to be opened.
await request(`participant ${process.pid}`, {}, async () => {});

onMessage(async (what) => {
  if (what !== 'go') return;
  // Under each lock the next one is asked for, behind the other participant: nobody gets two in a row.
  await new Promise((resolve) => {
    let left = count;
    const work = async () => {
      if (--left > 0) request('db', {}, work);
      else resolve();
    };
    request('db', {}, work);
  });
  say('done');
});
say('ready');
