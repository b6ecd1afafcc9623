// The inside of a worker thread of Node.

import process from 'node:process';
import { parentPort, workerData } from 'node:worker_threads';

import { serve } from '../kit/agent.mjs';
import { unreferencedTimer } from './timer.mjs';

const { openRealm } = await import(`../realms/${workerData.realm}.mjs`);

const ways = {
  close: () => process.exit(0),
  throw: () => setTimeout(() => {
    throw new Error('as planned');
  }),
  return: () => parentPort.close(),
};

const own = { die: (way) => ways[way](), unreferencedTimer };
const obey = serve(await openRealm(), own, (message) => parentPort.postMessage(message));
parentPort.on('message', obey);
