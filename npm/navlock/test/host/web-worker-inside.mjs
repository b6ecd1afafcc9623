// The inside of a worker of the web.

import { serve } from '../kit/agent.mjs';

// On Bun the URL has lost its query, so the realm is an argument.
const realm = new URL(import.meta.url).searchParams.get('realm') ?? process.argv[2];
const { openRealm } = await import(`../realms/${realm}.mjs`);

const ways = {
  close: () => (self.close ? self.close() : process.exit(0)), // Bun has no close()
  throw: () => setTimeout(() => {
    throw new Error('as planned');
  }),
};

const obey = serve(await openRealm(), { die: (way) => ways[way]() }, (message) => self.postMessage(message));
self.addEventListener('message', ({ data }) => obey(data));
