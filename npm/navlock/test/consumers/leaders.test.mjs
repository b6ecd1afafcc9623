// Packages that elect a leader by navigator.locks: the program that has the lock leads, until it ends. The others
// have the leader work for them by messages, which Node has between threads.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';

import { hasOwnLocks, nodes, openPlace, start } from './programs.mjs';

/**
 * For each package: the program that is a tab, the line that it reads, and its answers. `alone` has the answers of
 * the leader and, when that was killed, of the next one. `shared` has those of the second of two threads, while the
 * first one leads and when the first one has ended.
 */
const consumers = {
  'tab-election': { program: 'tab-election.mjs', words: '21', alone: ['42', '42'], shared: ['42', '42'] },
  'TanStack DB': { program: 'tanstack-db.mjs', words: 'key', alone: ['true 1 1', 'true 1 1'], shared: ['true 1 0', 'true 1 1'] },
  // The next leader finds the rows that were written before.
  PGlite: { program: 'pglite.mjs', words: 'name', alone: ['1', '2'], shared: ['1', '2'] },
};

for (const [consumer, { program, words, alone, shared }] of Object.entries(consumers)) {
  for (const { name, command } of nodes) {
    const begin = (context, place, withNavlock) => start(context, { command, place, program, words: [path.join(place.folder, 'data')], withNavlock });

    test(`${consumer} on ${name}: one of two processes leads, and the other one when it is killed`, { timeout: 300_000 }, async (context) => {
      const place = openPlace(context);
      const leader = begin(context, place);
      assert.equal(await leader.hear(), 'leads');
      const other = begin(context, place);
      assert.equal(await other.hear(), 'waits');
      leader.tell(words);
      assert.equal(await leader.hear(), alone[0]);
      await leader.kill();
      assert.equal(await other.hear(), 'leads');
      other.tell(words);
      assert.equal(await other.hear(), alone[1]);
      await other.kill();
    });

    test(`${consumer} on ${name}: the leader of two threads works for both, and the other one when it is ended`, { timeout: 300_000 }, async (context) => {
      const place = openPlace(context);
      const { hear, kill, tell } = start(context, { command, place, program: 'threads.mjs', words: [program, path.join(place.folder, 'data')] });
      tell('start');
      assert.equal(await hear(), '0 leads');
      tell('start');
      assert.equal(await hear(), '1 waits');
      tell(`1 ${words}`);
      assert.equal(await hear(), `1 ${shared[0]}`);
      tell('end 0');
      assert.deepEqual([await hear(), await hear()].sort(), ['0 ended', '1 leads']);
      tell(`1 ${words}`);
      assert.equal(await hear(), `1 ${shared[1]}`);
      await kill();
    });

    if (!hasOwnLocks(command)) continue;
    test(`${consumer} on ${name} with the runtime's own: both processes lead`, { timeout: 300_000 }, async (context) => {
      const place = openPlace(context);
      const programs = [0, 1].map(() => begin(context, place, false));
      for (const { hear } of programs) assert.equal(await hear(), 'leads');
      for (const { kill } of programs) await kill();
    });
  }
}
