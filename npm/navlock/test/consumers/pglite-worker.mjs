import './web-worker.mjs';

import { PGlite } from '@electric-sql/pglite';
import { worker } from '@electric-sql/pglite/worker';

worker({
  // Only the leader calls this, once.
  init: ({ dataDir }) => {
    postMessage({ type: 'opens' });
    return PGlite.create(dataDir);
  },
});
