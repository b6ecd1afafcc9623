import './web-worker.mjs';

import { PGlite } from '@electric-sql/pglite';
import { worker } from '@electric-sql/pglite/worker';

worker({
  // The leader is asked for it, once.
  init: ({ dataDir }) => {
    postMessage({ type: 'opens' });
    return PGlite.create(dataDir);
  },
});
