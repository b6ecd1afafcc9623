'use strict';
// Looking: who holds what, who waits for it, and what happens meanwhile.

const {
  FinalizationRegistry, TypeError, defineProperty, ownArray, registerFinalization, setPrototypeOf, unregisterFinalization,
} = require('./primordials.cjs');
const { AbortAlgorithm, addAbortAlgorithm, removeAbortAlgorithm } = require('./abort.cjs');
const { deferred } = require('./deferred.cjs');
const { defineInterface } = require('./interface.cjs');
const { obtainLockManager } = require('./lock-manager.cjs');
const { rejectedWith, toAbortSource, toDOMString } = require('./webidl.cjs');

/** Only code that has this key may call the constructor. */
const key = {};

/**
 * The state of a look, and an `Entry` of realm.cjs. It refers to the {@link Look} only while somebody waits for
 * news. So a `Look` that nobody refers to any more is collected, and the collection ends it.
 */
class Watching extends AbortAlgorithm {
  /**
   * @param {string | null} name
   * @param {import('./abort.cjs').AbortSource | null} signal
   */
  constructor(locks, name, allBuckets, signal) {
    super();
    this.locks = locks;
    this.name = name;
    this.allBuckets = allBuckets;
    this.signal = signal;
    /** `null` until the look has begun. */
    this.realm = null;
    /** @type {import('./requests.cjs').OpenManager | null} `null` until the look has begun */
    this.watched = null;
    /** The news that have been taken, and the index of those to give next. */
    this.told = ownArray();
    this.at = 0;
    /** The promises that wait for news, in order, each with its look. */
    this.first = null;
    this.last = null;
    /** Whether news was asked for and has not come yet. */
    this.isAsked = false;
    /** Whether news has come, and a task that takes it is queued. */
    this.isDue = false;
    this.hasEnded = false;
    /** `{ reason }`, with which the next call of `next()` is rejected. */
    this.failure = null;
    this.id = -1;
    this.news = 0;
  }

  /** A promise for the next news. */
  wait(look) {
    const { promise, resolve, reject } = deferred();
    if (this.at === this.told.length && !this.hasEnded) this.#ask();
    if (this.at < this.told.length) {
      resolve(result(this.told[this.at], false));
      this.told[this.at++] = undefined;
    } else if (this.failure !== null) {
      reject(this.failure.reason);
      this.failure = null;
    } else if (this.hasEnded) {
      resolve(result(undefined, true));
    } else {
      const waiter = { look, next: null, reject, resolve };
      if (this.first === null) {
        this.realm.keepAlive.start();
        this.first = waiter;
      } else {
        this.last.next = waiter;
      }
      this.last = waiter;
    }
    return promise;
  }

  #ask() {
    if (this.isAsked) return;
    if (this.id >= 0) this.realm.lookOn(this);
    else this.#begin();
    this.isAsked = true;
  }

  /**
   * Begins the look. The signal is listened to only from now on, so that the signal does not keep a look that never
   * begins.
   */
  #begin() {
    const { signal } = this;
    if (signal !== null && signal.aborted) {
      this.signalToAbort(signal.reason);
      return;
    }
    this.watched = obtainLockManager(this.locks);
    this.realm = this.watched.realm;
    if (signal !== null) addAbortAlgorithm(signal, this);
    try {
      this.realm.look(this, this.watched.number, this.name, this.allBuckets);
    } catch (error) {
      // A look that has begun nevertheless goes on.
      if (this.id < 0) removeAbortAlgorithm(this);
      else this.isAsked = true;
      throw error;
    }
  }

  /** Nothing is to be done: {@link wait} knows that it waits. */
  onPending() {}

  onGranted() {
    if (this.isDue) return;
    this.isDue = true;
    try {
      // In a task, like callbacks.
      this.realm.tasks.queue(take, this);
    } catch (error) {
      this.isDue = false;
      throw error;
    }
  }

  onFailed() {
    this.failure = { reason: this.realm.failure(this) };
    this.end();
  }

  /** Takes the news. */
  take() {
    this.isDue = false;
    if (this.id < 0) return; // ended meanwhile
    const news = this.realm.looked(this);
    if (news.length === 0) return; // taken before
    this.told = setPrototypeOf(news, null);
    this.at = 0;
    this.isAsked = false;
    while (this.first !== null && this.at < this.told.length) {
      const { told } = this;
      const value = told[this.at];
      told[this.at++] = undefined;
      this.first.resolve(result(value, false));
      this.#takeFirst();
    }
    if (this.first !== null) this.#ask();
  }

  #takeFirst() {
    if (this.first === null) return; // ended by what was called meanwhile
    const { next } = this.first;
    if (next !== null) {
      this.first = next;
      return;
    }
    this.realm.keepAlive.stop();
    this.first = this.last = null;
    this.realm.keepAlive.releaseLater();
  }

  /** Ends the look. If this throws, it is called again. */
  end() {
    this.hasEnded = true;
    this.told = ownArray();
    this.at = 0;
    if (this.id >= 0) this.realm.release(this);
    while (this.first !== null) {
      if (this.failure === null) this.first.resolve(result(undefined, true));
      else this.first.reject(this.failure.reason);
      this.#takeFirst();
      this.failure = null;
    }
    removeAbortAlgorithm(this);
  }

  /** Ends the look and settles no promise: the code that waits for one has ended. */
  abandon() {
    if (this.first !== null) {
      this.realm.keepAlive.stop();
      this.first = this.last = null;
      this.realm.keepAlive.releaseLater();
    }
    this.end();
  }

  /** <https://dom.spec.whatwg.org/#abortsignal-add> */
  signalToAbort(reason) {
    if (!this.hasEnded) this.failure = { reason };
    this.end();
  }
}

/** The task in which news are taken. */
function take(watching) {
  watching.take();
}

/** A value in the form in which an async iterator gives it. */
function result(value, done) {
  return { value, done };
}

/** A look: an async iterator. */
class Look {
  #watching;

  constructor() {
    if (arguments[0] !== key) throw new TypeError('Illegal constructor');
    this.#watching = arguments[1];
  }

  /** The next news: first a picture, then events. */
  next() {
    // This is no async function: it would return another promise, which would call a `then` that programs can replace.
    try {
      return this.#watching.wait(this);
    } catch (error) {
      return rejectedWith(error);
    }
  }

  /** Ends the look. */
  async return(value) {
    this.#end();
    return { value: await value, done: true };
  }

  /** Ends the look, and rejects with `error`. */
  async throw(error) {
    this.#end();
    throw error;
  }

  #end() {
    this.#watching.failure = null;
    this.#watching.end();
    unregisterFinalization(abandoned, this.#watching);
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}
defineInterface(Look, ['next', 'return', 'throw']);

/** Ends looks to which nothing refers any more. */
const abandoned = new FinalizationRegistry((watching) => watching.end());

/**
 * Looks at the bucket of a lock manager: first at its locks and requests, and then at what happens to them.
 *
 * Opens nothing before the first call of `next()`. Throws a TypeError for options that make no sense.
 *
 * @param {import('./lock-manager.cjs').LockManager} locks
 */
function look(locks, options = {}) {
  if (typeof options !== 'object' || options === null) throw new TypeError('look: the options are not an object');
  const { allBuckets = false, name, signal } = options;
  if (typeof allBuckets !== 'boolean') throw new TypeError('look: allBuckets is not a boolean');
  const wanted = name === undefined ? null : toDOMString(name);
  const source = signal === undefined ? null : toAbortSource(signal, 'look: the signal');
  const watching = new Watching(locks, wanted, allBuckets, source);
  defineDisposal();
  const begun = new Look(key, watching);
  registerFinalization(abandoned, begun, watching, watching);
  return begun;
}

/**
 * Defines the method that `await using` calls. This runs at each call of `look`: if the runtime does not have the
 * symbol, a program may have defined it since the last call.
 */
function defineDisposal() {
  const { asyncDispose } = Symbol;
  if (typeof asyncDispose !== 'symbol' || asyncDispose in Look.prototype) return;
  const value = async function () {
    await this.return();
  };
  defineProperty(Look.prototype, asyncDispose, { __proto__: null, value, writable: true, configurable: true });
}

module.exports = { look };
