// Runs one test in a process of Node, Deno or Bun, and prints its outcome.

import { getEventListeners } from 'node:events';
import { writeSync } from 'node:fs';
import process from 'node:process';

import { createContext } from '../kit/context.mjs';
import { runTest } from '../kit/test.mjs';
import { tests } from '../suite/index.mjs';
import { nodeWorkerSpawner } from './node-worker-outside.mjs';
import { processSpawner, programRunner } from './process-outside.mjs';
import { webWorkerSpawner } from './web-worker-outside.mjs';

/** The mark by which subjects/runtime.mjs finds the outcome in the output. */
const MARK = '@outcome ';

const job = JSON.parse(process.argv[2]);
const { openRealm } = await import(`../realms/${job.realm}.mjs`);
const platform = {
  spawnWorker: globalThis.Worker ? webWorkerSpawner(job.realm) : nodeWorkerSpawner(job.realm),
  spawnProcess: processSpawner(job),
  runProgram: programRunner(job),
  abortListeners: (signal) => getEventListeners(signal, 'abort').length,
  memory() {
    collectGarbage();
    return process.memoryUsage.rss();
  },
};
const outcome = await runTest(tests.get(job.test), createContext(await openRealm(), platform));
writeSync(1, `\n${MARK}${JSON.stringify(outcome)}\n`);
process.exit(0);

function collectGarbage() {
  if (globalThis.Bun) Bun.gc(true);
  else globalThis.gc(); // which the flags of the runtime define; see runtimes.mjs
}
