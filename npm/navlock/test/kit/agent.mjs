// The inside of an agent (a worker or a process). It runs the functions that a test sends. Their first argument is an
// object with everything that the agent has.

import { describe, isDOMException } from './assert.mjs';
import { Hold, isFree, settle } from './hold.mjs';

/**
 * @param {object} realm  `locks` and the rest, of this agent
 * @param {object} own    what the kind of agent adds, such as how to end it from within
 * @param {(message: object) => void} post
 * @returns {(message: object) => Promise<void>} what to do with a message
 */
export function serve(realm, own, post) {
  /** Holds by the number by which the test names them. */
  const holds = [];
  const context = {
    ...realm,
    ...own,
    holds,
    hold: (name, options) => new Hold(realm.locks, name, options),
    isFree: (name, mode) => isFree(realm.locks, name, mode),
    settle: () => settle(realm.locks),
  };
  post({ ready: true });
  return async ({ id, source, args }) => {
    try {
      const call = (0, eval)(`(${source})`);
      post({ id, value: await call(context, ...args) });
    } catch (error) {
      post({ id, error: { name: error?.name, text: describe(error), dom: isDOMException(error) } });
    }
  };
}
