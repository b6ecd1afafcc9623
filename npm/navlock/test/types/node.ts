// Ours in place of Node's, as @types/node declares them.

import { locks } from 'navlock';
import type { LockManager } from 'node:worker_threads';

export const theirs: LockManager = locks;
export const navigatorLike: Pick<Navigator, 'locks'> = { locks };
