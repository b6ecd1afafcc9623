// Runs one test in a page of a browser.

import { createContext } from '../kit/context.mjs';
import { runTest } from '../kit/test.mjs';
import { tests } from '../suite/index.mjs';
import { webWorkerSpawner } from './web-worker-outside.mjs';

/** Called by subjects/browser.mjs, with a job. */
globalThis.runJob = async (job) => {
  const { openRealm } = await import(`../realms/${job.realm}.mjs`);
  const platform = { spawnWorker: webWorkerSpawner(job.realm) };
  return runTest(tests.get(job.test), createContext(await openRealm(), platform));
};
