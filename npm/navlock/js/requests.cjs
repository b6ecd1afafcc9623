'use strict';
// Requests and queries of this realm, from the numbers of the addon to promises.
//
// The addon answers at once where it can. What it cannot answer yet comes out of `addon.next()`
// later: when it wakes this realm, or when one of our own calls has decided it. Nothing here runs
// code of others, except for the listeners of a lost lock; callbacks run in tasks of their own.

const { AbortController, DOMException, Promise, controllerAbort, controllerSignal, setImmediate } = require('./primordials.cjs');
const { AbortAlgorithm, addAbortAlgorithm, removeAbortAlgorithm } = require('./abort.cjs');
const { loadAddon } = require('./addon.cjs');
const { createLock } = require('./lock.cjs');
const { SHARED } = require('./webidl.cjs');

/** How it stands with a request or query, in the addon's words. */
const PENDING = 0;
const GRANTED = 1;
const UNAVAILABLE = 2;
const FAILED = 3;
/** The bits of its answers: how it stands, whether there is more news to take, and the id above. */
const STATUS = 3;
const MORE = 4;
const ID_SHIFT = 3;
/** What it says when there is no news. */
const NOTHING = 0xffff_ffff;

/** Where a request is in its life here. */
const WAITING = 0;
/** The callback is to run: a task is on its way. */
const DUE = 1;
const RUNNING = 2;
/** The promise has been settled, or is about to be. */
const DONE = 3;

let addon;

/** The addon, ready for use in this realm. */
function getAddon() {
  if (addon === undefined) {
    const loaded = loadAddon();
    loaded.listen(wake);
    addon = loaded;
  }
  return addon;
}

/**
 * Who is told of what comes out of the addon, by id. The addon uses ids again, so that this does
 * not grow, and is told of the end of each exactly once, by {@link forget}.
 *
 * @type {(LockRequest | Query | undefined)[]}
 */
const table = [];

/** What has been decided, by others or by a call of ours: until there is no more, or nobody wakes us. */
function takeNews(news) {
  try {
    while (news !== NOTHING) {
      table[news >>> ID_SHIFT]?.tell(news & STATUS);
      if ((news & MORE) === 0) return;
      news = addon.next();
    }
  } catch (error) {
    // The stack was full before. The addon counts on us: nobody wakes us for the rest.
    setImmediate(wake);
    throw error;
  }
}

/** A task of the addon: others have decided something. */
function wake() {
  isTaskFree = due === 0;
  try {
    takeNews(addon.next());
  } finally {
    isTaskFree = false;
  }
}

/** How many tasks are on their way. */
let due = 0;

/** This turn is a task in which nothing else has been done, and no task that is due is before it. */
let isTaskFree = false;

/**
 * Queues a task: <https://html.spec.whatwg.org/multipage/webappapis.html#queue-a-task>.
 *
 * FAST: the task in which we were woken will do, for the first. The event loop takes as long to get
 * from one to the next as a whole request does.
 */
function queueTask(task, argument) {
  if (isTaskFree) {
    isTaskFree = false;
    task(argument);
  } else {
    due++;
    setImmediate(runTask, task, argument);
  }
}

function runTask(task, argument) {
  due--;
  if (abandoned !== null) giveUpAbandoned();
  task(argument);
}

/** Releases a lock, aborts a request, or throws an answer away. */
function forget(id) {
  table[id] = undefined;
  takeNews(addon.release(id));
}

/** How many requests and queries wait for the addon: they keep the event loop alive. */
let pending = 0;

let isKeptAlive = false;
let isResting = false;

function startWaiting() {
  pending++;
  if (!isKeptAlive) addon.keepAlive((isKeptAlive = true));
}

/** One less; {@link rest} or {@link restLater} comes after it. */
function stopWaiting() {
  pending--;
}

/** Lets the event loop end, if nothing is waited for. */
function rest() {
  if (pending === 0 && isKeptAlive) addon.keepAlive((isKeptAlive = false));
}

/** The same once it is known whether more is waited for: it is as dear as a request each time. */
function restLater() {
  if (pending > 0 || !isKeptAlive || isResting) return;
  isResting = true;
  setImmediate(restNow);
}

function restNow() {
  isResting = false;
  rest();
}

function failureOf(id) {
  // By index, here and below: how arrays are taken apart can be replaced.
  const failure = addon.failure(id);
  return new DOMException(failure[1], failure[0]);
}

/** The functions that settle the promise that was made last. */
let resolveLast;
let rejectLast;

/** An executor for all promises, instead of a closure for each. */
function keepFunctions(resolve, reject) {
  resolveLast = resolve;
  rejectLast = reject;
}

/**
 * A lock request, later its lock: <https://w3c.github.io/web-locks/#lock-request>.
 *
 * Its abort algorithm is "signal to abort the request".
 */
class LockRequest extends AbortAlgorithm {
  constructor(manager, name, flags, callback) {
    super();
    this.manager = manager;
    this.name = name;
    this.isShared = (flags & SHARED) !== 0;
    this.callback = callback;
    /** The lock's released promise. */
    this.promise = new Promise(keepFunctions);
    this.resolve = resolveLast;
    this.reject = rejectLast;
    this.state = WAITING;
    this.isHeld = false;
    this.id = -1;
    /** Opens {@link hold} for the callback; `null` if the request never had to wait. */
    this.open = null;
    /** What `inspect()` has given. */
    this.inspection = null;
  }

  get mode() {
    return this.isShared ? 'shared' : 'exclusive';
  }

  /** The addon has decided something. */
  tell(status) {
    if (this.state === WAITING) stopWaiting();
    if (status === FAILED) {
      this.fail();
      restLater();
    } else {
      this.schedule(status);
    }
  }

  /**
   * Process the lock request queue, step 2.14, and request a lock, step 3.5.1: a task for the
   * callback, of its own, so that microtasks run between two callbacks.
   */
  schedule(status) {
    this.state = DUE;
    if (status === GRANTED) this.isHeld = true;
    else this.letGo();
    queueTask(begin, this);
  }

  /** Gives back to the addon what it keeps for this request. */
  letGo() {
    const { id } = this;
    this.id = -1;
    this.isHeld = false;
    forget(id);
  }

  /** It can never be granted, or its lock was lost. */
  fail() {
    const reason = failureOf(this.id);
    const { inspection } = this;
    this.end();
    this.reject(reason);
    if (inspection !== null) {
      // Last: its listeners are code of others, which may make requests in this turn.
      isTaskFree = false;
      controllerAbort(inspection.controller, reason);
    }
  }

  /** Signal to abort the request: <https://w3c.github.io/web-locks/#signal-to-abort-the-request> */
  signalToAbort(reason) {
    // Only before the callback begins: the algorithm is removed there.
    if (this.state === WAITING) stopWaiting();
    restLater();
    // 1. Out of the queue; or, if it has been granted and its callback not begun, released.
    this.end();
    // 2.
    this.reject(reason);
  }

  /** The end of everything but the promise. */
  end() {
    this.state = DONE;
    this.callback = null;
    removeAbortAlgorithm(this);
    if (this.id >= 0) this.letGo();
  }
}

/** The task of a grant or unavailability. */
function begin(request) {
  // Aborted or stolen meanwhile. Step 2.14.1.1 of processing the queue is done by the signal's
  // abort algorithm, which has run by now: it gave the lock back and rejected the promise.
  if (request.state !== DUE) return;
  if (request.open === null) hold(request);
  else request.open();
}

/**
 * Request a lock: <https://w3c.github.io/web-locks/#request-a-lock>
 *
 * @param {number} manager  the addon's number of it
 * @param {string} name
 * @param {number} flags    of webidl.cjs
 * @param {(lock: object | null) => unknown} callback
 * @param {AbortSignal | null} signal  not aborted
 * @returns {LockRequest}
 */
function requestLock(manager, name, flags, callback, signal) {
  if (abandoned !== null) giveUpAbandoned();
  // 1.
  const request = new LockRequest(manager, name, flags, callback);
  // 3. The lock task queue is the addon's. Its answer is never acted upon in this turn.
  let answer;
  try {
    answer = addon.request(manager, name, flags);
  } catch (error) {
    request.reject(new DOMException(error.message, 'OperationError'));
    return request;
  }
  const status = answer & STATUS;
  const waited = pending;
  try {
    table[(request.id = answer >>> ID_SHIFT)] = request;
    // 2. After step 3, as nothing can abort in between, and who failed needs no algorithm.
    if (signal !== null && status !== FAILED) addAbortAlgorithm(signal, request);
    if (status === PENDING) {
      startWaiting();
      wait(request);
    } else if (status === FAILED) {
      request.fail();
    } else {
      request.schedule(status);
    }
  } catch (error) {
    // The stack is full, also for calls that would mend it: that is done when there is room. Another
    // promise is rejected.
    pending = waited;
    request.next = abandoned;
    abandoned = request;
    throw error;
  }
  // A thief's victims may be our own.
  if ((answer & MORE) !== 0) takeNews(addon.next());
  return request;
}

/** Requests that the addon has and that nobody will hear of, one behind the other by `next`. */
let abandoned = null;

function giveUpAbandoned() {
  while (abandoned !== null) {
    const request = abandoned;
    abandoned = request.next;
    request.end();
  }
}

/** Gives a request up whose callback has not begun. */
function cancelRequest(request) {
  if (request.state < RUNNING) request.signalToAbort(new DOMException('the request was given up', 'AbortError'));
}

/** Has the callback run in the asynchronous context of the request, not of who made way for it. */
async function wait(request) {
  const opened = new Promise(keepFunctions);
  request.open = resolveLast;
  await opened;
  if (request.state === DUE) hold(request);
}

/** Runs the callback, and holds the lock until what it returned is settled. */
async function hold(request) {
  const { callback } = request;
  request.state = RUNNING;
  request.callback = null; // and what it has captured
  removeAbortAlgorithm(request);
  const lock = request.isHeld ? createLock(request) : null;
  let value;
  let failed = false;
  try {
    // `this` is undefined.
    const returned = callback(lock);
    // What the callback waits for from the start, it has asked for.
    rest();
    // This adopts what was returned, as the conversion to a promise does, with the functions that
    // the language had from the start.
    value = await returned;
  } catch (error) {
    value = error;
    failed = true;
  }
  // It was lost, and the promise rejected, while the callback ran.
  if (request.state !== RUNNING) return;
  if (failed) restLater(); // it may have thrown at once
  // https://w3c.github.io/web-locks/#concept-lock, when the waiting promise settles:
  // 1. Release first: who hears of the promise finds the lock free.
  request.end();
  // 2.
  if (failed) request.reject(value);
  else request.resolve(value);
}

/** A question: <https://w3c.github.io/web-locks/#snapshot-the-lock-state>. */
class Query {
  constructor() {
    this.promise = new Promise(keepFunctions);
    this.resolve = resolveLast;
    this.reject = rejectLast;
    this.id = -1;
  }

  tell(status) {
    stopWaiting();
    restLater();
    this.end(status);
  }

  end(status) {
    if (status === FAILED) {
      this.reject(failureOf(this.id));
      forget(this.id);
    } else {
      // In a task, like callbacks: those of grants that were made before come before.
      queueTask(answerQuery, this);
    }
  }
}

Object.setPrototypeOf(Query.prototype, null);

/** The task of an answer. */
function answerQuery({ id, resolve }) {
  const snapshot = addon.snapshot(id);
  const names = snapshot[0];
  const facts = snapshot[1];
  const clientIds = snapshot[2];
  const heldCount = snapshot[3];
  forget(id);
  // https://webidl.spec.whatwg.org/#dictionary-to-js-value: members in the order of the alphabet.
  const entries = (start, end) => {
    const list = [];
    for (let index = start; index < end; index++) {
      const mode = (facts[2 * index] & SHARED) !== 0 ? 'shared' : 'exclusive';
      list[index - start] = { clientId: clientIds[facts[2 * index + 1]], mode, name: names[index] };
    }
    return list;
  };
  resolve({ held: entries(0, heldCount), pending: entries(heldCount, names.length) });
}

/** @returns {Promise<{ held: object[], pending: object[] }>} */
function queryLocks(manager) {
  const query = new Query();
  let answer;
  try {
    answer = addon.query(manager);
  } catch (error) {
    query.reject(new DOMException(error.message, 'OperationError'));
    return query.promise;
  }
  query.id = answer >>> ID_SHIFT;
  table[query.id] = query;
  if ((answer & STATUS) === PENDING) startWaiting();
  else query.end(answer & STATUS);
  return query.promise;
}

/**
 * What is known of a lock beyond the standard.
 *
 * @param {LockRequest} request  one that became a lock
 */
function inspectRequest(request) {
  if (request.inspection === null) {
    if (!request.isHeld) {
      throw new DOMException(`the lock "${request.name}" is not held any more, and was not inspected while it was`, 'InvalidStateError');
    }
    const controller = new AbortController();
    request.inspection = {
      controller,
      lost: controllerSignal(controller),
      fencingToken: addon.token(request.id),
      clientId: addon.clientId(request.manager),
    };
  }
  const { clientId, fencingToken, lost } = request.inspection;
  return { clientId, fencingToken, lost };
}

module.exports = { cancelRequest, getAddon, inspectRequest, queryLocks, requestLock };
