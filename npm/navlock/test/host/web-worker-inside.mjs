// The inside of a worker of the web.

import { serve } from '../kit/agent.mjs';

const realm = new URL(import.meta.url).searchParams.get('realm');
const { openRealm } = await import(`../realms/${realm}.mjs`);

const ways = {
  close: () => self.close(),
  throw: () => setTimeout(() => {
    throw new Error('as planned');
  }),
};

const obey = serve(await openRealm(), { die: (way) => ways[way]() }, (message) => self.postMessage(message));
self.addEventListener('message', ({ data }) => obey(data));
