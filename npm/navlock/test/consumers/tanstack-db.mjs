// A tab of TanStack DB, with a collection that all tabs share. The leader writes the collection.

import { BrowserCollectionCoordinator } from '@tanstack/browser-db-sqlite-persistence';

import { answer, asked, lead } from './candidate.mjs';

const rows = [];
const adapter = {
  getStreamPosition: async () => {
    lead();
    return { latestTerm: 0, latestSeq: 0, latestRowVersion: 0 };
  },
  applyCommittedTx: async (collection, { mutations }) => rows.push(...mutations),
};
const coordinator = new BrowserCollectionCoordinator({ dbName: 'work', adapter });
coordinator.subscribe('tasks', () => {});
await asked();
answer(async (key) => {
  const { ok, term } = await coordinator.requestApplyLocalMutations('tasks', [{ mutationId: key, type: 'insert', key, value: {} }]);
  return `${ok} ${term} ${rows.length}`;
});
