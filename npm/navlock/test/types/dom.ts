// Ours in place of the browser's.

import { hold, locks, type Lock as OurLock, type LockManager as OurLockManager } from 'navlock';

export const theirs: LockManager = locks;
export const navigatorLike: Pick<Navigator, 'locks'> = { locks };
export const take = (lock: OurLock): Lock => lock;
export const options: LockOptions = { mode: 'shared' };

/** Code that was written for the browser. */
export function libraryCode(manager: LockManager) {
  return manager.request('db', { mode: 'shared' }, async (lock: Lock | null) => lock?.name);
}
export const used: Promise<string | undefined> = libraryCode(locks);
export const back: (manager: OurLockManager) => LockManager = (manager) => manager;
export const held = (manager: LockManager) => hold(manager, 'db');
