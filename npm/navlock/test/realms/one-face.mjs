// Locks by the Rust half on Node-API: bench/one-face, which is there only to be measured.

import process from 'node:process';

import face from '../../bench/one-face/face.cjs';
import install from '../../js/install.cjs';

export async function openRealm() {
  const { Lock, LockManager, openLockManager } = face;
  const bucket = process.env.NAVLOCK_BUCKET;
  const { locks } = openLockManager(bucket);
  const { installAttribute, installNavigator, replace } = install;
  for (const [name, value] of Object.entries({ Lock, LockManager })) replace(globalThis, name, { value, writable: true, enumerable: false });
  if (!globalThis.navigator) installNavigator();
  const prototype = Object.getPrototypeOf(globalThis.navigator);
  installAttribute(globalThis.navigator, (of) => {
    if (of === prototype) throw new TypeError('Illegal invocation: this is not a Navigator');
    return locks;
  });
  return {
    locks,
    LockManager,
    Lock,
    openBucket: (name) => openLockManager(`${bucket} ${name}`).locks,
    openUserAgent: () => openLockManager(bucket, true).locks,
  };
}
