// broadcast-channel elects its leader by navigator.locks where it finds them, and by messages and
// timers where it does not.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { nodes, openPlace, start } from './programs.mjs';

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
}
