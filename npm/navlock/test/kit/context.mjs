// What a test is given.

import { Hold, isFree, settle } from './hold.mjs';

/**
 * @param {{ locks: object, LockManager: Function, Lock: Function }} realm  what is tested
 * @param {object} platform  what the runtime offers: `spawnWorker()`, and, where the subject offers
 *     it, `spawnProcess()`, `runProgram(main)`, `memory()`, `abortListeners(signal)`
 */
export function createContext(realm, platform) {
  const { locks } = realm;
  return {
    ...realm,
    ...platform,
    hold: (name, options) => new Hold(locks, name, options),
    isFree: (name, mode) => isFree(locks, name, mode),
    settle: () => settle(locks),
  };
}
