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

/** The states of a request here. In this one, the addon has not answered yet. */
const NEW = 0;
/** The request is in its queue. */
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
    this.news = 0;
    /** Whether nobody has the promise. */
    this.isAbandoned = false;
    /** Runs {@link hold} in the request's asynchronous context; `null` if the request never had to wait. */
    this.open = null;
    /** Told of the end of the callback, and of the loss of the lock; see inspect.cjs. */
    this.inspection = null;
    /** What follows the request if reports are wanted; see followed.cjs. */
    this.followed = null;
    /** Why the request has failed, or how the lock was lost. */
    this.failure = null;
  }

  get mode() {
    return this.isShared ? 'shared' : 'exclusive';
  }

  /** The request waits. If this is called again, the request is known to be in a deadlock. */
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
    this.schedule();
  }

  /**
   * Process the lock request queue, step 2.14, and request a lock, step 3.5.1. Each callback gets a task of its own,
   * so that microtasks run between two callbacks.
   */
  schedule() {
    if (this.state > DUE) return; // told again
    this.leave(DUE);
    this.realm.tasks.queue(begin, this);
  }

  /** The request has failed, or its lock was lost. */
  onFailed() {
    const { inspection, realm } = this;
    this.failure ??= realm.failure(this);
    // What comes after the loss, as an answer that shows the thief, comes after the reactions to it.
    realm.tasks.withdrawTask();
    if (!this.isAbandoned) this.fail(this.failure);
    this.end();
    // Last: the listeners are code of the program, which may make requests in this turn.
    if (inspection !== null) inspection.onLost(this.failure);
  }

  /**
   * Signal to abort the request: <https://w3c.github.io/web-locks/#signal-to-abort-the-request>
   *
   * This runs only before the callback begins: then the algorithm is removed.
   */
  signalToAbort(reason) {
    // 2. Reactions to the promise run in later microtasks.
    if (!this.isAbandoned) this.fail(reason);
    // 1. The request leaves the queue. If it was granted and its callback has not begun, the lock is released.
    this.end();
  }

  fail(reason) {
    this.reject(reason);
    if (this.state !== DONE) tellEnd(this, reason);
  }

  /** Ends everything but the promise. If this fails halfway, it can be called again. */
  end() {
    this.leave(DONE);
    this.callback = null;
    if (this.followed !== null) this.followed.end();
    if (this.id >= 0) {
      this.isHeld = false;
      this.realm.release(this);
    }
    removeAbortAlgorithm(this);
    this.realm.keepAlive.releaseLater();
  }

  leave(state) {
    if (this.state === WAITING) this.realm.keepAlive.stop();
    this.state = state;
  }
}

/** The task of a granted request, or of one whose lock was not available. */
function begin(request) {
  // The request was aborted, or its lock stolen, meanwhile. After an abort, the signal's abort algorithm has mostly
  // done step 2.14.1.1 of processing the queue by now: it has released the lock and rejected the promise.
  if (request.state !== DUE || request.isAbandoned) return;
  if (request.open === null) hold(request);
  else request.open();
}

/**
 * A lock manager that was opened.
 *
 * @typedef {object} OpenManager
 * @property {import('./realm.cjs').Realm} realm
 * @property {number} number  its number in the addon
 * @property {number} userAgent  the number of its user agent in the addon
 */

/**
 * Request a lock: <https://w3c.github.io/web-locks/#request-a-lock>
 *
 * @param {OpenManager} manager
 * @param {string} name
 * @param {import('./webidl.cjs').LockOptions} options  with a signal that has not aborted, or none
 * @param {(lock: object | null) => unknown} callback
 * @returns {LockRequest}
 */
function requestLock(manager, name, options, callback) {
  const { number, realm } = manager;
  // 1.
  const request = new LockRequest(manager, name, options, callback);
  tellStart(request);
  try {
    // A subscriber of that channel may have aborted the signal.
    if (options.signal !== null && options.signal.aborted) throw options.signal.reason;
    // 2. Nothing can abort before step 3.
    if (options.signal !== null) addAbortAlgorithm(options.signal, request);
    if (!reporting.isOff) request.followed = follow(request);
    // 3. The addon has the lock task queue. Nothing of a program runs in this turn because of its answer.
    realm.request(request, number, name, options);
  } catch (error) {
    // The addon cannot, or the stack is full. The caller rejects another promise.
    request.isAbandoned = true;
    if (request.id < 0) request.end();
    tellEnd(request, error);
    throw error;
  }
  return request;
}

/** Gives up a request whose callback has not begun. */
function cancelRequest(request) {
  if (request.state < RUNNING) request.signalToAbort(new DOMException('the request was given up', 'AbortError'));
}

/** Keeps the asynchronous context of the request, so that the callback runs in it, and not in that of a release. */
async function wait(request, opened) {
  try {
    await opened;
  } catch {
    request.open = null; // the stack was full: the callback runs in the context of the release
    return;
  }
  if (request.state === DUE) hold(request);
}

/** Runs the callback, and holds the lock until what it returned is settled. */
async function hold(request) {
  const { callback, followed, realm, source } = request;
  // The abort did not reach our listener: another listener stopped it, or the stack was full.
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
    // Requests that the callback waits for from its start have been made by now.
    realm.keepAlive.release();
    value = await toPromise(returned);
  } catch (error) {
    value = error;
    failed = true;
  }
  // The lock was lost, and the promise rejected, while the callback ran.
  if (request.state !== RUNNING) return;
  if (request.inspection !== null) request.inspection.onEnd(request, failed);
  // https://w3c.github.io/web-locks/#concept-lock, when the waiting promise settles:
  // 1. Release first: reactions to the promise find the lock free.
  request.end();
  // 2.
  if (failed) request.reject(value);
  else request.resolve(value);
  tellEnd(request, failed ? value : undefined);
}

module.exports = { cancelRequest, requestLock };
