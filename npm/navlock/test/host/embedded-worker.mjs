// The inside of a worker of navlock-js-run.

import { serve } from '../kit/agent.mjs';

const { runtime } = globalThis;
const { openRealm } = await import(`../realms/${runtime.argument}.mjs`);

const ways = {
  close: () => runtime.close(),
  throw: () => setTimeout(() => {
    throw new Error('as planned');
  }),
  return: () => runtime.parent.stopListening(),
};

const own = { die: (way) => ways[way](), unreferencedTimer: runtime.unreferencedTimer };
const obey = serve(await openRealm(), own, runtime.parent.post);
runtime.parent.listen(obey);
