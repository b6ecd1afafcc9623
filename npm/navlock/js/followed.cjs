'use strict';
// Requests that are followed because reports of them are wanted: what waits or is held for long, and
// what waits for a callback in which it was made.

const { DOMException, Set, clearTimeout, setAdd, setDelete, setTimeout } = require('./primordials.cjs');
const { deferred } = require('./deferred.cjs');
const { askHolder } = require('./queries.cjs');
const { Overdue } = require('./overdue.cjs');
const { callInside, heldOutside, holdersOutside } = require('./own-callback.cjs');
const { at, placeOf, reporting, takeStack, wantedReports, warn } = require('./reports.cjs');

/**
 * For how long a request may wait for its own callback before that is told. Nobody can see whether the
 * callback waits for it. If it does not, it ends, mostly sooner.
 */
const OWN_MS = 1000;

/** For how long a report waits to be told who holds a lock. */
const ANSWER_MS = 1000;

/** From how many places that is told at most, once each. */
const MOST_PLACES = 1000;

const places = new Set();

/** What was told last of those who wait for each other, by which request; `null` once that waits no more. */
let lastDeadlock = null;

/** All that hold their lock now. */
const holders = new Set();

/** @type {{ wanted: import('./reports.cjs').Wanted, held: Overdue | null, waiting: Overdue | null, own: Overdue | null, nested: Overdue | null, hasContexts: boolean } | null} */
let lists = null;

class Followed {
  /** Its request has not been answered. */
  #isWaiting = true;
  #lists;

  /** @param {import('./requests.cjs').LockRequest} request */
  constructor(request, lists) {
    const { nested, own, waiting, wanted } = lists;
    this.#lists = lists;
    /** `null` once it is over. */
    this.request = request;
    this.stack = wanted.stacks || own !== null ? takeStack() : null;
    /** What it waits for, as long as it does, if its own callback holds that. */
    this.blocker = null;
    if (waiting !== null) waiting.add(this);
    /** In which callbacks it was made, as long as it waits. */
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

  /** Whether the request fails if it would wait for ever, for others that wait for its callbacks. */
  get failsOnDeadlock() {
    return this.#lists.wanted.deadlocks === 'reject';
  }

  /** Whether it is told of if it would wait for ever and does not fail. */
  get tellsDeadlock() {
    return this.#lists.wanted.deadlocks !== 'off';
  }

  tellDeadlock(text) {
    // Others of ours may be in the same one.
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

  /** What the reader of a warning can use. */
  get told() {
    const { manager, mode, name, realm } = this.request;
    return { name, mode, bucket: realm.bucket(manager.number) };
  }

  /** Runs the callback. */
  call(callback, lock) {
    this.#stopWaiting();
    // Who was told of the grant may have stolen the lock meanwhile.
    if (lock === null || this.request === null) return callback(lock);
    const { hasContexts, held } = this.#lists;
    setAdd(holders, this);
    if (held !== null) held.add(this);
    return hasContexts ? callInside([this], () => callback(lock)) : callback(lock);
  }

  /** The request is over, or its lock. Also more than once. */
  end() {
    this.#stopWaiting();
    setDelete(holders, this);
    this.#lists.held?.delete(this);
    // Contexts go on, and know in which callback they are. What is over must not keep its stack, which
    // has the objects whose methods were called, nor its request, whose promise has a context: each would
    // keep the one before, for ever.
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

/** Calls `call` as the callback of requests that hold their locks, where that matters. */
function callInsideAll(requests, call) {
  if (lists === null || !lists.hasContexts) return call();
  const followed = [];
  for (const request of requests) if (request.followed !== null) followed.push(request.followed);
  return callInside(followed, call);
}

/** Whether it waits for as long as somebody holds the lock: others wait for the broker at most, or a signal. */
function waitsForHolders({ ifAvailable, source, steal }) {
  return !ifAvailable && !steal && source === null;
}

/** Follows a request if reports are wanted; otherwise `null`, and none need be asked for from then on. */
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
  // It may have been granted while that was asked.
  if (!followed.isWaiting) return;
  warn('NAVLOCK_WAITING', `a request for ${lockText(told)} has waited for ${ms} ms${by}${at('requested at', followed.place)}`, told);
}

/** Who holds what a request waits for, if that is a part of this thread. */
function holderHere({ manager, name }) {
  for (const other of holders) {
    if (other.request.manager === manager && other.request.name === name) return `; it is held by this thread${at('taken at', other.place)}`;
  }
  return null;
}

/** Also says if nobody answers: who waits may do so because of that. */
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

/** It has waited for so long that whoever did not wait for it would have gone on, mostly: so it counts as waited for. */
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
