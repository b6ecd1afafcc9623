'use strict';
// Locks for code that cannot put its work into a callback.

const {
  AbortController, FinalizationRegistry, TypeError, controllerAbort, controllerSignal, defineProperty, registerFinalization,
  unregisterFinalization,
} = require('./primordials.cjs');
const { deferred } = require('./deferred.cjs');
const { defineInterface, defineShown } = require('./interface.cjs');
const { isOver } = require('./lock.cjs');
const { at, placeOf, takeStack, wantedReports, warn } = require('./reports.cjs');

/** Only code that has this may call the constructor. */
const key = {};

/**
 * A lock that is held until it is released.
 *
 * The lock is released when this object is collected. So nothing that lives as long as the lock is held may refer to
 * this object: no part of the request does.
 */
class HeldLock {
  #lock;
  #holding;

  constructor() {
    if (arguments[0] !== key) throw new TypeError('Illegal constructor');
    this.#lock = arguments[1];
    this.#holding = arguments[2];
  }

  get name() {
    return this.#lock.name;
  }

  get mode() {
    return this.#lock.mode;
  }

  /** The `Lock` that a callback would have been given. */
  get lock() {
    return this.#lock;
  }

  /** Aborts when the lock is lost. */
  get lost() {
    return this.#holding.lost;
  }

  /**
   * Releases the lock. Returns the same promise each time: it is settled once the lock is free, and rejected if the
   * lock was lost before.
   */
  release() {
    unregisterFinalization(abandoned, this.#holding);
    return this.#holding.release();
  }
}
defineInterface(HeldLock, ['name', 'mode', 'lock', 'lost', 'release']);
defineShown(HeldLock);

/** A request, and what its callback waits for. */
class Holding {
  #granted = deferred();
  #kept = deferred();
  #lostController = new AbortController();
  #ended;
  #hasEnded = false;

  /** @param {{ stack: string } | null} stack  where the lock was requested */
  constructor(locks, name, options, stack) {
    this.stack = stack;
    /** `null` until the request is granted. */
    this.lock = null;
    this.lost = controllerSignal(this.#lostController);
    this.#ended = this.#follow(locks.request(name, options, (lock) => {
      this.#granted.resolve(lock);
      return lock === null ? undefined : this.#kept.promise;
    }));
    this.#ended.catch(() => {}); // whoever releases it still sees the rejection
  }

  get granted() {
    return this.#granted.promise;
  }

  /**
   * Whether nothing is left to be released. The lock is asked as well: if its agent has ended, the promise of the
   * request never settles.
   */
  get isOver() {
    return this.#hasEnded || isOver(this.lock);
  }

  release() {
    this.#kept.resolve();
    return this.#ended;
  }

  async #follow(request) {
    try {
      await request;
      // Here and below, `reject` has no effect if the request was granted.
      this.#granted.reject(new TypeError('hold: the lock manager has ended the request and not called its callback'));
    } catch (reason) {
      this.#granted.reject(reason);
      controllerAbort(this.#lostController, reason);
      throw reason;
    } finally {
      this.#hasEnded = true;
    }
  }
}

/** Releases the locks of objects to which nothing refers any more. */
const abandoned = new FinalizationRegistry((holding) => {
  if (holding.isOver) return;
  const { lock: { mode, name }, stack } = holding;
  holding.release().catch(() => {});
  const where = at('taken at', stack === null ? null : placeOf(stack));
  warn('NAVLOCK_ABANDONED', `the ${mode} lock ${JSON.stringify(name)} was held by an object that nobody has any more, and is released now. `
    + `Release it, or take it with "await using".${where}`, { name, mode });
});

/**
 * Requests a lock, and holds it until it is released.
 *
 * @param {{ request: Function }} locks  any lock manager, ours or the runtime's
 * @returns {Promise<HeldLock | null>} `null` if `ifAvailable` is set and the lock is not available
 */
async function hold(locks, name, options = {}) {
  if (typeof locks?.request !== 'function') throw new TypeError('hold: the first argument is not a lock manager');
  const holding = new Holding(locks, name, options, wantedReports().stacks ? takeStack() : null);
  const lock = await holding.granted;
  if (lock === null) return null;
  defineDisposal();
  holding.lock = lock;
  const held = new HeldLock(key, lock, holding);
  registerFinalization(abandoned, held, holding, holding);
  return held;
}

/**
 * Defines the method that `await using` calls. This runs at each call of `hold`: if the runtime does not have the
 * symbol, a program may have defined it since the last call.
 */
function defineDisposal() {
  const { asyncDispose } = Symbol;
  if (typeof asyncDispose !== 'symbol' || asyncDispose in HeldLock.prototype) return;
  const value = HeldLock.prototype.release;
  defineProperty(HeldLock.prototype, asyncDispose, { __proto__: null, value, writable: true, configurable: true });
}

module.exports = { hold };
