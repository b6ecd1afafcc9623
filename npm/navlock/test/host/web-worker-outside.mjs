// Agents in workers of the web: in browsers, Deno and Bun.

import { RemoteAgent } from '../kit/remote.mjs';

/** @param {string} realm  the module of realms/ that the workers open */
export function webWorkerSpawner(realm) {
  return () => {
    const url = new URL(`web-worker-inside.mjs?realm=${realm}`, import.meta.url);
    const worker = new Worker(url, { type: 'module', argv: [realm] });
    const agent = new RemoteAgent({
      post: (message) => worker.postMessage(message),
      end: () => worker.terminate(),
    });
    worker.addEventListener('message', ({ data }) => agent.receive(data));
    worker.addEventListener('error', (event) => {
      event.preventDefault(); // otherwise some runtimes would end the test as well
      agent.hasEnded(event.message);
    });
    return agent.ready;
  };
}
