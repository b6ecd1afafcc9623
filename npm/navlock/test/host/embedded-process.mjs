// The inside of an agent that is a process of navlock-js-run. Each line of the input and the output is one message.

import { serve } from '../kit/agent.mjs';

const { runtime } = globalThis;
const { realm } = JSON.parse(runtime.arguments[0]);
const { openRealm } = await import(`../realms/${realm}.mjs`);

const ways = {
  close: () => runtime.exit(0),
  throw: () => setTimeout(() => {
    throw new Error('as planned');
  }),
  return: () => stopReading(),
};

const own = { die: (way) => ways[way](), unreferencedTimer: runtime.unreferencedTimer };
const obey = serve(await openRealm(), own, (message) => console.log(JSON.stringify(message)));
const stopReading = runtime.readLines((line) => obey(JSON.parse(line)), () => runtime.exit(0)); // the test has ended
