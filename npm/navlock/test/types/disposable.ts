// `await using`, with TypeScript's lib.esnext.disposable. Checked, never run.

import { hold, locks, type LockManager as OurLockManager } from 'navlock';

export async function work(theirs: OurLockManager) {
  await using lock = await hold(locks, 'db');
  await using perhaps = await hold(theirs, 'cache', { ifAvailable: true });
  return [lock.name, perhaps?.name];
}
