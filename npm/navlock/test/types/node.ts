// Ours in place of Node's, as @types/node declares them.

import { hold, locks } from 'navlock';
import type { LockManager } from 'node:worker_threads';

export const theirs: LockManager = locks;
export const navigatorLike: Pick<Navigator, 'locks'> = { locks };
export const held = (manager: LockManager) => hold(manager, 'db');
