'use strict';
// Requests and their locks: <https://w3c.github.io/web-locks/#concept-lock-request>.

const { DOMException } = require('./primordials.cjs');
const { AbortAlgorithm, addAbortAlgorithm, removeAbortAlgorithm } = require('./abort.cjs');
const { deferred } = require('./deferred.cjs');
const { tellCallback, tellEnd, tellStart } = require('./diagnostics.cjs');
const { follow } = require('./followed.cjs');
const { createLock } = require('./lock.cjs');
const { reporting } = require('./reports.cjs');
const { toPromise } = require('./webidl.cjs');

/** Where a request is in its life here. The addon has not answered yet. */
const NEW = 0;
/** It is in its queue. */
const WAITING = 1;
/** The callback is to run: a task is on its way. */
const DUE = 2;
const RUNNING = 3;
/** The promise has been settled, or is about to be. */
const DONE = 4;

/**
 * A lock request, later its lock: <https://w3c.github.io/web-locks/#lock-request>.
 *
 * Its abort algorithm is "signal to abort the request". It is an `Entry` of realm.cjs.
 */
class LockRequest extends AbortAlgorithm {
  /** @param {OpenManager} manager */
  constructor(manager, name, { ifAvailable, isShared, steal }, callback) {
    super();
    this.manager = manager;
    this.realm = manager.realm;
    this.name = name;
    this.isShared = isShared;
    this.ifAvailable = ifAvailable;
    this.steal = steal;
    this.callback = callback;
    const { promise, resolve, reject } = deferred();
    /** The lock's released promise. */
    this.promise = promise;
    this.resolve = resolve;
    this.reject = reject;
    this.state = NEW;
    this.isHeld = false;
    this.id = -1;
    this.next = null;
    this.isLeft = false;
    this.news = -1;
    /** Nobody has its promise. */
    this.isAbandoned = false;
    /** Opens {@link hold} for the callback; `null` if the request never had to wait. */
    this.open = null;
    /** Told of the end of the callback, and of the loss of the lock; see inspect.cjs. */
    this.inspection = null;
    /** What has an eye on it if reports are wanted; see followed.cjs. */
    this.followed = null;
    /** Why it has failed, or how the lock was lost. */
    this.failure = null;
  }

  get mode() {
    return this.isShared ? 'shared' : 'exclusive';
  }

  /** Told once more, it waits on, and would for ever. */
  onPending() {
    if (this.state !== NEW) {
      this.onDeadlock();
      return;
    }
    this.realm.keepAlive.start();
    this.state = WAITING;
    const { promise, resolve } = deferred();
    this.open = resolve;
    wait(this, promise);
  }

  onDeadlock() {
    const told = this.state === WAITING ? this.realm.deadlock(this) : null;
    if (told !== null && this.followed !== null) this.followed.tellDeadlock(told);
  }

  onGranted() {
    this.isHeld = true;
    this.schedule();
  }

  onUnavailable() {
    if (this.id >= 0) this.realm.release(this);
    this.schedule();
  }

  /**
   * Process the lock request queue, step 2.14, and request a lock, step 3.5.1: a task for the
   * callback, of its own, so that microtasks run between two callbacks.
   */
  schedule() {
    this.leave(DUE);
    this.realm.tasks.queue(begin, this);
  }

  /** It can never be granted, or its lock was lost. */
  onFailed() {
    const { inspection, realm } = this;
    this.failure ??= realm.failure(this);
    if (!this.isAbandoned) this.fail(this.failure);
    this.end();
    if (inspection !== null) {
      // Last: its listeners are code of others, which may make requests in this turn.
      realm.tasks.withdrawTask();
      inspection.onLost(this.failure);
    }
  }

  /**
   * Signal to abort the request: <https://w3c.github.io/web-locks/#signal-to-abort-the-request>
   *
   * Only before the callback begins: the algorithm is removed there.
   */
  signalToAbort(reason) {
    // 2. Whoever hears of it does so in a later turn of the microtasks.
    if (!this.isAbandoned) this.fail(reason);
    // 1. Out of the queue; or, if it has been granted and its callback not begun, released.
    this.end();
  }

  fail(reason) {
    this.reject(reason);
    if (this.state !== DONE) tellEnd(this, reason);
  }

  /** The end of everything but the promise. What has failed in the middle of it may be done again. */
  end() {
    this.leave(DONE);
    this.callback = null;
    if (this.followed !== null) this.followed.end();
    if (this.id >= 0) {
      this.isHeld = false;
      this.realm.release(this);
    }
    removeAbortAlgorithm(this);
    this.realm.keepAlive.restLater();
  }

  /** What was left where the stack was full. */
  finish() {
    this.isLeft = false;
    if (this.news === -1) this.end();
    else if (this.state !== DONE || this.failure !== null) this.realm.tell(this);
  }

  leave(state) {
    if (this.state === WAITING) this.realm.keepAlive.stop();
    this.state = state;
  }
}

/** The task of a grant or unavailability. */
function begin(request) {
  // Aborted or stolen meanwhile. Step 2.14.1.1 of processing the queue is mostly done by the signal's
  // abort algorithm, which has run by now: it gave the lock back and rejected the promise.
  if (request.state !== DUE) return;
  if (request.open === null) hold(request);
  else request.open();
}

/**
 * A lock manager that was opened.
 *
 * @typedef {object} OpenManager
 * @property {import('./realm.cjs').Realm} realm
 * @property {number} number  the addon's of it
 * @property {number} userAgent  the addon's of the user agent
 */

/**
 * Request a lock: <https://w3c.github.io/web-locks/#request-a-lock>
 *
 * @param {OpenManager} manager
 * @param {string} name
 * @param {import('./webidl.cjs').LockOptions} options  their signal has not aborted
 * @param {(lock: object | null) => unknown} callback
 * @returns {LockRequest}
 */
function requestLock(manager, name, options, callback) {
  const { number, realm } = manager;
  // 1.
  const request = new LockRequest(manager, name, options, callback);
  tellStart(request);
  try {
    // 2. Nothing can abort before step 3.
    if (options.signal !== null) addAbortAlgorithm(options.signal, request);
    if (!reporting.isOff) request.followed = follow(request);
    // 3. The lock task queue is the addon's. Its answer is never acted upon in this turn.
    realm.request(request, number, name, options);
  } catch (error) {
    // The addon cannot, or the stack is full. Another promise is rejected.
    request.isAbandoned = true;
    if (request.id < 0) request.end();
    tellEnd(request, error);
    throw error;
  }
  return request;
}

/** Gives a request up whose callback has not begun. */
function cancelRequest(request) {
  if (request.state < RUNNING) request.signalToAbort(new DOMException('the request was given up', 'AbortError'));
}

/** Has the callback run in the asynchronous context of the request, not of who made way for it. */
async function wait(request, opened) {
  await opened;
  if (request.state === DUE) hold(request);
}

/** Runs the callback, and holds the lock until what it returned is settled. */
async function hold(request) {
  const { callback, followed, realm, source } = request;
  // Not told of the abort: others have kept it from our listener, or the stack was full.
  if (source !== null && source.aborted) {
    request.signalToAbort(source.reason);
    return;
  }
  request.state = RUNNING;
  request.callback = null; // and what it has captured
  removeAbortAlgorithm(request);
  const lock = request.isHeld ? createLock(request) : null;
  tellCallback(request);
  let value;
  let failed = false;
  try {
    // `this` is undefined.
    const returned = followed === null ? callback(lock) : followed.call(callback, lock);
    // What the callback waits for from the start, it has asked for.
    realm.keepAlive.rest();
    value = await toPromise(returned);
  } catch (error) {
    value = error;
    failed = true;
  }
  // It was lost, and the promise rejected, while the callback ran.
  if (request.state !== RUNNING) return;
  if (request.inspection !== null) request.inspection.onEnd(request, failed);
  // https://w3c.github.io/web-locks/#concept-lock, when the waiting promise settles:
  // 1. Release first: who hears of the promise finds the lock free.
  request.end();
  // 2.
  if (failed) request.reject(value);
  else request.resolve(value);
  tellEnd(request, failed ? value : undefined);
}

module.exports = { cancelRequest, requestLock };
