// broadcast-channel elects its leader by navigator.locks where it finds them. Elsewhere it uses messages and timers.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { hasOwnLocks, nodes, openPlace, start } from './programs.mjs';

for (const { name, command } of nodes) {
  test(`broadcast-channel on ${name}: who waits becomes leader when the leader is killed`, { timeout: 60_000 }, async (context) => {
    const place = openPlace(context);
    const first = start(context, { command, place, program: 'leader.mjs' });
    assert.equal(await first.hear(), 'led false');
    assert.equal(await first.hear(), `leader ${first.pid}`);
    assert.equal(await first.hear(), 'pubkey-bc||node||work', 'it is elected by a lock of ours');

    const second = start(context, { command, place, program: 'leader.mjs' });
    assert.equal(await second.hear(), 'led true');
    await first.kill();
    assert.equal(await second.hear(), `leader ${second.pid}`);
    await second.kill();
  });

  if (!hasOwnLocks(command)) continue;
  test(`broadcast-channel on ${name} with the runtime's own: both processes become leader`, { timeout: 60_000 }, async (context) => {
    const place = openPlace(context);
    for (const program of [0, 1].map(() => start(context, { command, place, program: 'leader.mjs', withNavlock: false }))) {
      await program.hear();
      assert.equal(await program.hear(), `leader ${program.pid}`);
    }
  });
}
