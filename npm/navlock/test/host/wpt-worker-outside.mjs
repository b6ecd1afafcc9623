// Starts workers for the web-platform-tests: each runs a file of tests, or a script that a test starts.

import { Worker as NodeWorker } from 'node:worker_threads';

const WebWorker = globalThis.Worker; // taken before tests get another one

/**
 * @param {{ checkout: string, realm: string }} job
 * @param {{ file: string } | { script: string }} what
 * @param {(data: unknown) => void} onMessage
 */
export function startWorker(job, what, onMessage = () => {}) {
  const url = new URL('wpt-worker-inside.mjs', import.meta.url);
  const options = JSON.stringify({ ...job, ...what });
  const waiting = []; // messages that are sent before the script of the worker listens
  let send = (data) => waiting.push(data);
  const receive = (data) => {
    if (data !== '@ready') return onMessage(data);
    send = (data) => worker.postMessage(data);
    waiting.splice(0).forEach(send);
  };
  let worker;
  if (WebWorker) {
    url.searchParams.set('job', options);
    worker = new WebWorker(url, { type: 'module', argv: [options] });
    worker.addEventListener('message', ({ data }) => receive(data));
  } else {
    worker = new NodeWorker(url, { workerData: options });
    worker.on('message', receive);
  }
  return { post: (data) => send(data), end: () => worker.terminate() };
}
