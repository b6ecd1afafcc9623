// The inside of an agent that is a process. Each line of the input and the output is one message.

import { writeSync } from 'node:fs';
import process from 'node:process';
import { createInterface } from 'node:readline';

import { serve } from '../kit/agent.mjs';
import { unreferencedTimer } from './timer.mjs';

const { realm } = JSON.parse(process.argv[2]);
const { openRealm } = await import(`../realms/${realm}.mjs`);

const lines = createInterface({ input: process.stdin });
const ways = {
  close: () => process.exit(0),
  throw: () => setTimeout(() => {
    throw new Error('as planned');
  }),
  return: () => {
    lines.off('close', ended);
    lines.close();
    process.stdin.destroy();
  },
};

const own = { die: (way) => ways[way](), unreferencedTimer };
const obey = serve(await openRealm(), own, (message) => writeSync(1, `${JSON.stringify(message)}\n`));
const ended = () => process.exit(0); // the test has ended
lines.on('line', (line) => obey(JSON.parse(line)));
lines.on('close', ended);
