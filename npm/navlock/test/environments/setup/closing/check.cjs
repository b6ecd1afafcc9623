const assert = require('node:assert/strict');

/** Fails unless all of jsdom's windows end with the first. */
async function check() {
  const { locks } = navigator;
  const frame = document.createElement('iframe');
  document.body.append(frame);
  const inFrame = frame.contentWindow.navigator.locks;
  await new Promise((resolve) => locks.request('db', () => resolve() ?? new Promise(() => {})));
  locks.request('db', () => assert.fail('it was granted'));
  inFrame.request('db', () => assert.fail('it was granted'));
  window.close();
  for (const closed of [locks, inFrame]) {
    for (const use of [closed.request('db', () => {}), closed.query()]) await assert.rejects(use, { name: 'InvalidStateError' });
  }
}

module.exports = { check };
