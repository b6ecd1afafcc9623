// Runs one test in a page of a browser.

import { createContext } from '../kit/context.mjs';
import { runTest } from '../kit/test.mjs';
import { tests } from '../suite/index.mjs';
import { webWorkerSpawner } from './web-worker-outside.mjs';

/** Called from outside, with what subjects/browser.mjs sends. */
globalThis.runJob = async (job) => {
  const { openRealm } = await import(`../realms/${job.realm}.mjs`);
  const platform = { spawnWorker: webWorkerSpawner(job.realm) };
  return runTest(tests.get(job.test), createContext(await openRealm(), platform));
};
