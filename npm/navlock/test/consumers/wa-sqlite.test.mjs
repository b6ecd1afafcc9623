// wa-sqlite (here the copy of it that is published) locks a database as SQLite asks for it. Its WebLocksMixin makes
// one lock of SQLite out of up to four of navigator.locks. Some of these are shared, some exclusive, and some are
// requested only if they are available. If a lock does not exclude others, their writes are lost, or the database is
// spoilt.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { hasOwnLocks, nodes, openPlace, start } from './programs.mjs';

const PROCESSES = 4;
const TIMES = 40;

/**
 * Has processes add to a number in one database, at the same time. Returns the number that is in the database then.
 */
async function count(context, { command, policy, withNavlock }) {
  const place = openPlace(context);
  const open = (times) => start(context, { command, place, program: 'counter.mjs', words: [place.folder, policy, times], withNavlock });
  const programs = [];
  // The first process makes the database.
  for (let index = 0; index < PROCESSES; index++) {
    programs.push(open(TIMES));
    assert.equal(await programs[index].hear(), '0');
  }
  for (const { tell } of programs) tell();
  const said = await Promise.all(programs.map(async ({ hear }) => JSON.parse(await hear())));
  // A database that was spoilt has no number.
  const found = Number(await open(0).hear().catch(() => NaN));
  return { found, added: said.reduce((sum, { added }) => sum + added, 0), failed: said.reduce((sum, { failed }) => sum + failed, 0) };
}

for (const { name, command } of nodes) {
  for (const policy of ['exclusive', 'shared', 'shared+hint']) {
    test(`wa-sqlite on ${name} with the policy ${policy}: nothing that four processes have written is lost`, { timeout: 300_000 }, async (context) => {
      const all = PROCESSES * TIMES;
      assert.deepEqual(await count(context, { command, policy, withNavlock: true }), { found: all, added: all, failed: 0 });
    });
  }

  if (!hasOwnLocks(command)) continue;
  test(`wa-sqlite on ${name} with the runtime's own: of what four processes have written much is lost`, { timeout: 300_000 }, async (context) => {
    const { found, added, failed } = await count(context, { command, policy: 'exclusive', withNavlock: false });
    context.diagnostic(`${found} of ${PROCESSES * TIMES}, ${failed} failed, ${added} thought to be written`);
    assert.notEqual(found, PROCESSES * TIMES);
  });
}
