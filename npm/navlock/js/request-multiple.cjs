'use strict';
// Several names: all their locks at once, or one of them. <https://w3c.github.io/web-locks/#deadlocks>

const { AbortController, DOMException, Promise, Set, TypeError, arraySort, controllerSignal, setImmediate } = require('./primordials.cjs');
const { deferred } = require('./deferred.cjs');
const { check, obtainLockManager } = require('./lock-manager.cjs');
const { callInsideAll } = require('./followed.cjs');
const { cancelRequest, requestLock } = require('./requests.cjs');
const { toAbortSource, toCallback, toDOMString, toLockOptions } = require('./webidl.cjs');

/** A promise whose rejection is not reported if nobody handles it. */
function quietly(deferred) {
  deferred.promise.catch(() => {});
  return deferred;
}

/** The locks of one call, taken one after the other. */
class Holdings {
  #requests = [];
  #locks = new Map();
  #kept = deferred();
  #failed = quietly(deferred());

  /** Rejected as soon as a lock is lost, or cannot be had. */
  get failed() {
    return this.#failed.promise;
  }

  /** @returns {Promise<boolean>} whether the lock was available */
  async take(manager, name, options) {
    const granted = deferred();
    const callback = (lock) => {
      granted.resolve(lock);
      return lock === null ? null : this.#kept.promise;
    };
    const request = requestLock(manager, name, options, callback);
    this.#requests.push(request);
    // Later requests are made in a turn in which the caller is not on the stack any more.
    const { followed } = this.#requests[0];
    if (followed !== null && request.followed !== null) request.followed.stack = followed.stack;
    request.promise.catch(this.#failed.reject);
    const lock = await Promise.race([granted.promise, this.failed]);
    this.#locks.set(name, lock);
    return lock !== null;
  }

  get(name) {
    return this.#locks.get(name);
  }

  /** The promise of the callback's result, also if the callback throws. */
  async call(callback, locks) {
    try {
      return await callInsideAll(this.#requests, () => callback(locks));
    } catch (error) {
      for (const request of this.#requests) request.inspection?.onEnd(request, true);
      throw error;
    }
  }

  /** Settles when no lock is held and none is waited for. */
  async release() {
    this.#kept.resolve();
    for (const request of this.#requests) cancelRequest(request);
    await Promise.allSettled(this.#requests.map(({ promise }) => promise));
  }
}

/** As `request()`: conversions from left to right, then its checks, for each name. */
function convert(what, locks, names, options, callback) {
  const manager = obtainLockManager(locks);
  if (typeof names === 'string') throw new TypeError(`${what}: the names are a string, not a list of strings`);
  const wanted = [];
  for (const name of names) wanted.push(toDOMString(name));
  const converted = toLockOptions(options);
  toCallback(callback, `${what}: the callback`);
  if (converted.steal) throw new DOMException(`${what}: locks are stolen one by one`, 'NotSupportedError');
  for (const name of wanted) check(name, converted);
  return { manager, converted, wanted };
}

/**
 * Takes all names in one order, that of their code units. Programs that take several locks in one order never wait for
 * each other in a cycle.
 */
async function requestMultiple(locks, names, options, callback) {
  const [given, granted] = arguments.length > 3 ? [options, callback] : [undefined, options];
  const { manager, converted, wanted } = convert('requestMultiple', locks, names, given, granted);
  const holdings = new Holdings();
  let areAvailable = true;
  try {
    for (const name of arraySort([...new Set(wanted)])) {
      areAvailable = await holdings.take(manager, name, converted);
      if (!areAvailable) break;
    }
  } catch (reason) {
    await holdings.release();
    throw reason;
  }
  if (wanted.length === 0) await new Promise((resolve) => setImmediate(resolve)); // as callbacks of request()
  if (!areAvailable) {
    await holdings.release();
    return granted(null);
  }

  const work = holdings.call(granted, wanted.map((name) => holdings.get(name)));
  const over = work.catch(() => {}).then(() => holdings.release());
  // If a lock is lost, the caller is told at once. The other locks are held while the callback runs: it may not have
  // noticed the loss yet.
  await Promise.race([over, holdings.failed]);
  return work;
}

/**
 * Takes one of the names. There is a request in the queue of each name; when the first callback runs, the other
 * requests end, and give back what they were granted in the same moment.
 */
async function requestAny(locks, names, options, callback) {
  const [given, granted] = arguments.length > 3 ? [options, callback] : [undefined, options];
  const { manager, converted, wanted } = convert('requestAny', locks, names, given, granted);
  if (wanted.length === 0) throw new TypeError('requestAny: there is no name; give at least one');
  if (converted.ifAvailable) {
    // One after the other, so that no lock is taken that is not needed.
    for (const name of wanted) {
      let isTaken = false;
      const ifFree = (lock) => ((isTaken = lock === null) ? null : granted(lock));
      const result = await requestLock(manager, name, converted, ifFree).promise;
      if (!isTaken) return result;
    }
    return granted(null);
  }
  // No holder keeps the call waiting for ever as long as another name may become free. So each request has a signal.
  const signal = converted.signal ?? toAbortSource(controllerSignal(new AbortController()), 'requestAny: the signal');
  const requests = [];
  let chosen = null;
  const choose = (request) => {
    if (chosen !== null) return false;
    chosen = request;
    for (const other of requests) if (other !== request) cancelRequest(other);
    return true;
  };
  const end = () => Promise.allSettled(requests.map(({ promise }) => promise));
  try {
    for (const name of wanted) {
      const request = requestLock(manager, name, { ...converted, signal }, (lock) => (choose(request) ? granted(lock) : undefined));
      requests.push(request);
      request.promise.catch(() => choose(request));
      if (request.isHeld) break;
    }
  } catch (error) {
    choose(error);
    await end();
    throw error;
  }
  await end();
  return chosen.promise;
}

module.exports = { requestAny, requestMultiple };
