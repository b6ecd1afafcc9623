// Requests locks and holds them, for tests and for the agents that tests start.

import { deferred, task } from './wait.mjs';

/** A request, and its lock once it is granted. */
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
    // A test that ignores the outcome must not end with an unhandled rejection. A request that has failed is never
    // granted.
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
 * Fulfilled when everything that was on its way to this agent has arrived. The answer to the query comes after the answers
 * to all earlier requests. The grant of a free name comes after all grants that were decided before. The task comes after
 * their callbacks.
 *
 * What has not happened by then does not happen by itself, so no test needs to sleep.
 */
export async function settle(locks) {
  await locks.query();
  await locks.request(`settle ${crypto.randomUUID()}`, () => {});
  await task();
}

/** Whether a request with `ifAvailable` gets `name` now. */
export async function isFree(locks, name, mode = 'exclusive') {
  return await locks.request(name, { mode, ifAvailable: true }, (lock) => lock !== null);
}
