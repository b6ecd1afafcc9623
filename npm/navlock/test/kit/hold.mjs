// Asking for locks and keeping them, for tests and for the agents that they start.

import { deferred, task } from './wait.mjs';

/** A request, and the lock that may come of it. */
export class Hold {
  #granted = deferred();
  #kept = deferred();

  /** What the callback was given, `undefined` before it ran. */
  lock = undefined;

  constructor(locks, name, options = {}) {
    /** What `request()` returned. */
    this.ended = locks.request(name, options, (lock) => {
      this.lock = lock;
      this.#granted.resolve(lock);
      return this.#kept.promise;
    });
    // A test that does not look at the outcome must not end of an unhandled rejection. A request
    // that fails will not be granted either.
    this.ended.catch((reason) => this.#granted.reject(reason));
  }

  /** The callback's argument, once it has run. */
  get granted() {
    return this.#granted.promise;
  }

  get hasRun() {
    return this.lock !== undefined;
  }

  release(value) {
    this.#kept.resolve(value);
    return this.ended;
  }

  fail(reason) {
    this.#kept.reject(reason);
    return this.ended;
  }
}

/**
 * Ends when all that was on its way to this agent has arrived: the answer to the query comes after
 * everything that was asked before; the grant of a free name after all grants that were decided
 * before; the task after their callbacks.
 *
 * So what has not happened by then does not happen by itself, and no test needs to sleep.
 */
export async function settle(locks) {
  await locks.query();
  await locks.request(`settle ${crypto.randomUUID()}`, () => {});
  await task();
}

/** How a request with `ifAvailable` finds `name` now. */
export async function isFree(locks, name, mode = 'exclusive') {
  return await locks.request(name, { mode, ifAvailable: true }, (lock) => lock !== null);
}
