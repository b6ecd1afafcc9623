'use strict';
// Requests that are followed because reports are wanted: of requests that wait long, of locks that are held long, and
// of requests that wait for a callback in which they were made.

const { DOMException, Set, clearTimeout, setAdd, setDelete, setTimeout } = require('./primordials.cjs');
const { deferred } = require('./deferred.cjs');
const { askHolder } = require('./queries.cjs');
const { Overdue } = require('./overdue.cjs');
const { callInside, heldOutside, holdersOutside } = require('./own-callback.cjs');
const { at, placeOf, reporting, takeStack, wantedReports, warn } = require('./reports.cjs');

/**
 * How long a request may wait for the callback in which it was made, before that is reported. Nobody can see whether
 * the callback waits for the request. A callback that does not wait for the request mostly ends sooner.
 */
const OWN_MS = 1000;

/** How long a report waits for the answer to the query for the holder of a lock. */
const ANSWER_MS = 1000;

/** At how many places in a program such requests are reported, at most. Each place is reported once. */
const MOST_PLACES = 1000;

const places = new Set();

/** The deadlock that was reported last, and the request that reported it; `null` once that request waits no more. */
let lastDeadlock = null;

/** The followed requests that hold their lock now. */
const holders = new Set();

/** @type {{ wanted: import('./reports.cjs').Wanted, held: Overdue | null, waiting: Overdue | null, own: Overdue | null, nested: Overdue | null, hasContexts: boolean } | null} */
let lists = null;

class Followed {
  /** Whether the request has not been answered. */
  #isWaiting = true;
  #lists;

  /** @param {import('./requests.cjs').LockRequest} request */
  constructor(request, lists) {
    const { nested, own, waiting, wanted } = lists;
    this.#lists = lists;
    /** `null` once the request is over. */
    this.request = request;
    this.stack = wanted.stacks || own !== null ? takeStack() : null;
    /** While the request waits: the lock that it waits for, if its own callback holds that lock. */
    this.blocker = null;
    if (waiting !== null) waiting.add(this);
    /** While the request waits: the callbacks in which it was made. */
    this.around = null;
    if (!lists.hasContexts || !waitsForHolders(request)) return;
    if (nested !== null) {
      this.around = holdersOutside();
      if (this.around.length > 0) nested.add(this);
    }
    if (own === null) return;
    this.blocker = heldOutside(request);
    if (this.blocker !== null) own.add(this);
  }

  get isWaiting() {
    return this.#isWaiting;
  }

  /**
   * Whether the request fails in a deadlock, in which it would wait for ever: it waits for requests that wait for the
   * callbacks in which it was made.
   */
  get failsOnDeadlock() {
    return this.#lists.wanted.deadlocks === 'reject';
  }

  /** Whether a deadlock of the request is reported, if the request does not fail in it. */
  get tellsDeadlock() {
    return this.#lists.wanted.deadlocks !== 'off';
  }

  tellDeadlock(text) {
    // Other requests of this thread may be in the same deadlock.
    if (lastDeadlock !== null && lastDeadlock.text === text) return;
    lastDeadlock = { text, by: this };
    warn('NAVLOCK_DEADLOCK', `${text}${at('requested at', this.place)}`, this.told);
  }

  get isHolding() {
    return this.request !== null && this.request.isHeld;
  }

  get place() {
    return this.stack === null ? null : placeOf(this.stack);
  }

  /** The details that the reader of a warning can use. */
  get told() {
    const { manager, mode, name, realm } = this.request;
    return { name, mode, bucket: realm.bucket(manager.number) };
  }

  /** Runs the callback. */
  call(callback, lock) {
    this.#stopWaiting();
    // A program that was told of the grant may have stolen the lock meanwhile.
    if (lock === null || this.request === null) return callback(lock);
    const { hasContexts, held } = this.#lists;
    setAdd(holders, this);
    if (held !== null) held.add(this);
    return hasContexts ? callInside([this], () => callback(lock)) : callback(lock);
  }

  /** Notes that the request or its lock is over. This may be called more than once. */
  end() {
    this.#stopWaiting();
    setDelete(holders, this);
    this.#lists.held?.delete(this);
    // An asynchronous context that began in the callback refers to this object, and may outlive the request. The
    // stack refers to the objects whose methods were called, and the request's promise refers to a context. If this
    // object kept them, each context would keep the one before it, for ever.
    this.stack = null;
    this.request = null;
  }

  #stopWaiting() {
    this.#isWaiting = false;
    if (lastDeadlock !== null && lastDeadlock.by === this) lastDeadlock = null;
    this.#lists.waiting?.delete(this);
    this.#lists.nested?.delete(this);
    this.around = null;
    if (this.blocker === null) return;
    this.#lists.own.delete(this);
    this.blocker = null;
  }
}

/** Calls `call` within the callbacks of these requests, if they hold their locks and reports need to know. */
function callInsideAll(requests, call) {
  if (lists === null || !lists.hasContexts) return call();
  const followed = [];
  for (const request of requests) if (request.followed !== null) followed.push(request.followed);
  return callInside(followed, call);
}

/**
 * Whether the request waits for as long as somebody holds the lock. With `ifAvailable` or `steal` it waits for the
 * broker at most, and with a signal the program can end it.
 */
function waitsForHolders({ ifAvailable, source, steal }) {
  return !ifAvailable && !steal && source === null;
}

/** Follows a request if reports are wanted. Otherwise returns `null`, and notes that later requests need not ask. */
function follow(request) {
  const wanted = wantedReports();
  if (lists === null || lists.wanted !== wanted) lists = listsFor(wanted);
  if (!lists.isEmpty) return new Followed(request, lists);
  reporting.isOff = true;
  return null;
}

function listsFor(wanted) {
  const held = wanted.held === null ? null : new Overdue(wanted.held, tellHeld);
  const waiting = wanted.waiting === null ? null : new Overdue(wanted.waiting, tellWaiting);
  const own = wanted.strict === 'off' ? null : new Overdue(OWN_MS, wanted.strict === 'warn' ? tellOwn : rejectOwn, true);
  const nested = wanted.deadlocks === 'off' ? null : new Overdue(OWN_MS, tellNested, true);
  const hasContexts = own !== null || nested !== null;
  return { wanted, held, waiting, own, nested, hasContexts, isEmpty: held === null && waiting === null && !hasContexts };
}

function tellHeld(followed, ms) {
  const { told } = followed;
  warn('NAVLOCK_HELD', `${lockText(told)} has been held for ${ms} ms${at('taken at', followed.place)}`, told);
}

async function tellWaiting(followed, ms) {
  const { request, told } = followed;
  const by = holderHere(request) ?? await holderElsewhere(request);
  // The request may have been granted meanwhile.
  if (!followed.isWaiting) return;
  warn('NAVLOCK_WAITING', `a request for ${lockText(told)} has waited for ${ms} ms${by}${at('requested at', followed.place)}`, told);
}

/** The words for the holder of the lock for which a request waits, if this thread holds it. */
function holderHere({ manager, name }) {
  for (const other of holders) {
    if (other.request.manager === manager && other.request.name === name) return `; it is held by this thread${at('taken at', other.place)}`;
  }
  return null;
}

/**
 * The words for the holder of the lock, by a query. If the query is not answered in time, the words say so: that may
 * be why the request waits.
 */
function holderElsewhere({ manager, name }) {
  const { promise, resolve } = deferred();
  tellHolder(manager, name, resolve);
  return promise;
}

async function tellHolder(manager, name, tell) {
  try {
    const question = askHolder(manager, name);
    const giveUp = () => {
      question.end();
      tell('; the broker has not said who holds it');
    };
    const timer = setTimeout(giveUp, ANSWER_MS).unref();
    const holder = await question.promise;
    clearTimeout(timer);
    tell(describe(holder, manager));
  } catch {
    tell(''); // the request itself is told what is wrong
  }
}

function describe(holder, { number, realm }) {
  if (holder === null) return '';
  const { age, clientId, process } = holder;
  const since = age === null ? '' : `, for ${age} ms`;
  if (clientId === realm.clientId(number)) return `; it is held by this thread${since}`;
  if (process === null) return `; it is held by client ${clientId}${since}`;
  const { command, host, pid } = process;
  return `; it is held by process ${pid} (${command}) on ${host}, client ${clientId}${since}`;
}

function tellOwn(followed, ms) {
  const key = `${followed.request.name}\n${followed.place}`;
  if (!followed.blocker.isHolding || places.has(key) || places.size === MOST_PLACES) return;
  places.add(key);
  warn('NAVLOCK_OWN_CALLBACK', ownText(followed, ms), followed.told);
}

/**
 * Notes that the request was made inside the locks that are held around it. A callback that does not wait for the
 * request would mostly have ended by now, so those that have not ended are taken to wait for it.
 */
function tellNested({ around, request }) {
  for (const holder of around) if (holder.isHolding) request.realm.putInside(request, holder.request);
}

function rejectOwn(followed, ms) {
  if (followed.blocker.isHolding) followed.request.signalToAbort(new DOMException(ownText(followed, ms), 'OperationError'));
}

function ownText({ blocker, place, told }, ms) {
  return `a request for ${lockText(told)} has waited for ${ms} ms for the ${blocker.request.mode} lock of that name, `
    + 'held by the callback in which the request was made. If that callback waits for it, neither ever ends.'
    + `${at('requested at', place)}${at('held by the callback that was given at', blocker.place)}`;
}

function lockText({ bucket, mode, name }) {
  return `the ${mode} lock ${JSON.stringify(name)} (bucket ${JSON.stringify(bucket)})`;
}

module.exports = { callInsideAll, follow };
