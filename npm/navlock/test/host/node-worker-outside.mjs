// Agents in worker threads of Node.

import { Worker } from 'node:worker_threads';

import { RemoteAgent } from '../kit/remote.mjs';

/** @param {string} realm  the module of realms/ that the workers open */
export function nodeWorkerSpawner(realm) {
  return () => {
    const worker = new Worker(new URL('node-worker-inside.mjs', import.meta.url), { workerData: { realm } });
    const agent = new RemoteAgent({
      post: (message) => worker.postMessage(message),
      end: () => worker.terminate(),
    });
    worker.on('message', (message) => agent.receive(message));
    worker.on('error', (error) => agent.hasEnded(error.message));
    worker.on('exit', (code) => agent.hasEnded(`exit code ${code}`));
    return agent.ready;
  };
}
