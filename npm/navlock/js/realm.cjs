'use strict';
// What this thread of JavaScript has: an instance of the addon, and who is told of its news.
//
// The addon answers at once where it can. What it cannot answer yet comes out of `addon.next()`
// later: when it wakes this realm, or when one of our own calls has decided it. Its answers are
// numbers, put together as its own constants say (src/protocol.rs). Only this file reads them.
//
// The file is long because the addon is a private field of one class, so that nobody else can reach it: all that
// the addon is asked for stands here.

const { AsyncResource } = require('node:async_hooks');

const {
  DOMException, Error, FinalizationRegistry, arrayFilter, arrayOf, defineProperty, jsonParse, ownArray, registerFinalization,
  unregisterFinalization,
} = require('./primordials.cjs');
const { findAddon } = require('./addon.cjs');
const { KeepAlive } = require('./keep-alive.cjs');
const { TaskQueue } = require('./task-queue.cjs');

/**
 * What was asked of the addon: a request, a query or a look. It is told how it stands in the turn in which
 * that becomes known. Callbacks are for later: none of this runs code of others, except for the
 * listeners of a lost lock.
 *
 * @typedef {object} Entry
 * @property {number} id  the addon's; -1 if the addon has nothing of it (any more)
 * @property {() => void} onPending  there will be news of it
 * @property {() => void} onGranted  a lock is held; a question is answered
 * @property {() => void} onUnavailable  the lock could not be had at once
 * @property {() => void} onFailed  the request has failed, or the lock that it had become is lost
 * @property {() => void} end  gives up what nobody will hear of
 * @property {import('./requests.cjs').OpenManager} [manager]  of a request
 * @property {import('./requests.cjs').OpenManager | null} [watched]  of a look that has begun
 *
 * These are true of what was {@link Realm.left}:
 * @property {() => void} finish
 * @property {boolean} isLeft
 * @property {Entry | null} next
 * @property {number} news  the status that it was to be told; -1 if it is to be given up
 */

class Realm {
  #addon;

  /**
   * By id. The addon uses ids again, so that this does not grow, and is told of the end of each
   * exactly once, by {@link release}.
   *
   * @type {(Entry | undefined)[]}
   */
  #entries = ownArray();

  /**
   * What could not be done where the stack was full, one behind the other by `next`. Whoever catches
   * that leaves it here and calls `wakeLoop`, all in the frame that has caught it: there was room for a
   * call of the addon, but perhaps for no other. The rest is done by `finish()` in a task.
   *
   * @type {Entry | import('./abort.cjs').AbortSource | null}
   */
  left = null;

  tasks = new TaskQueue();

  /** The addon holds it weakly: if it was collected, this realm has ended. */
  #takeNewsInTask = () => this.#wake();

  #managers = new FinalizationRegistry((number) => this.#addon.closeManager(number));

  #userAgents = new FinalizationRegistry((number) => this.#addon.closeUserAgent(number, false));

  constructor(addon) {
    this.#addon = addon;
    this.wakeLoop = addon.wakeLoop;
    this.keepAlive = new KeepAlive(addon.keepAlive);
    addon.listen(this.#takeNewsInTask);
    // So a realm lives as long as its global object, although nobody has the module any more, and ends
    // with it: with its thread, or with a context, as those in which test runners run files.
    defineProperty(globalThis, Symbol('navlock'), { value: Object.freeze(() => this), configurable: true });
  }

  /** A user agent whose locks are seen by all of this process, or by nobody else. Its number. */
  openProcess(isPrivate) {
    return this.#addon.openUserAgent(this.#addon.PROCESS, isPrivate, null, null);
  }

  /** The user agent of the broker at this socket. Its number. */
  openMachine(socket, program) {
    return this.#addon.openUserAgent(this.#addon.MACHINE, false, socket, program);
  }

  /** Forgets a user agent when this object is collected. */
  holdUserAgent(object, number) {
    registerFinalization(this.#userAgents, object, number, object);
  }

  /** Ends a user agent, with all that its lock managers were asked for. */
  closeUserAgent(object, number) {
    // Before it is known to nobody what is looked at.
    const looks = this.#looks(({ userAgent }) => userAgent === number);
    try {
      for (let at = 0; at < looks.length; at++) looks[at].end();
    } finally {
      // Its number may be another's from now on.
      unregisterFinalization(this.#userAgents, object);
      this.#addon.closeUserAgent(number, true);
    }
  }

  /**
   * A lock manager of a bucket, which is forgotten when nobody has it any more.
   *
   * @returns {import('./requests.cjs').OpenManager}
   */
  openManager(userAgent, bucket) {
    const manager = { number: this.#addon.openManager(userAgent, bucket), realm: this, userAgent };
    registerFinalization(this.#managers, manager, manager.number);
    return manager;
  }

  /**
   * Ends agents while the rest of the realm goes on. Nothing of them hears of it: their promises never
   * settle.
   *
   * Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
   *
   * @param {(manager: import('./requests.cjs').OpenManager) => boolean} isOver  those whose lock managers are
   */
  terminate(isOver) {
    const requests = arrayFilter(this.#entries, (entry) => entry?.manager !== undefined && isOver(entry.manager));
    for (const request of requests) request.isAbandoned = true;
    // 1. Requests; 2. locks, those that have been granted meanwhile among them.
    for (const isHeld of [false, true]) {
      for (const request of requests) {
        if (request.id >= 0 && request.isHeld === isHeld) request.end();
      }
    }
    for (const look of this.#looks(isOver)) look.abandon();
  }

  /** Those who look at what lock managers see that are such. */
  #looks(areThey) {
    return arrayFilter(this.#entries, (entry) => entry?.watched != null && areThey(entry.watched));
  }

  clientId(manager) {
    return this.#addon.clientId(manager);
  }

  /** The name of its bucket. */
  bucket(manager) {
    return this.#addon.bucket(manager);
  }

  /** Whether locks end by themselves there, as on etcd. */
  hasLease(manager) {
    return this.#addon.hasLease(manager) === 1;
  }

  /** Requests a lock. Throws an OperationError where the addon cannot. */
  request(entry, manager, name, { ifAvailable, isShared, signal, steal }) {
    const addon = this.#addon;
    if (this.left !== null) this.wakeLoop(); // where there was no room even for that
    let flags = 0;
    if (isShared) flags |= addon.SHARED;
    if (ifAvailable) flags |= addon.IF_AVAILABLE;
    if (steal) flags |= addon.STEAL;
    if (signal !== null) flags |= addon.SIGNAL;
    if (entry.followed !== null) {
      if (entry.followed.failsOnDeadlock) flags |= addon.FAILS_ON_DEADLOCK;
      if (entry.followed.tellsDeadlock) flags |= addon.TELLS_DEADLOCK;
    }
    let answer;
    try {
      answer = addon.request(manager, name, flags);
      entry.id = answer >>> addon.ID_SHIFT;
      this.#entries[entry.id] = entry;
      this.#begin(entry, answer);
    } catch (error) {
      if (answer === undefined) throw operationError(error);
      // Its promise is nobody's. Written out, here and in `query`: the stack may be full, and a function
      // that did this for both would need room to be called before it has noted anything.
      entry.news = -1;
      entry.isLeft = true;
      entry.next = this.left;
      this.left = entry;
      this.wakeLoop();
      throw error;
    }
  }

  /** Says that a request that waits was made inside a lock that is held. */
  putInside(entry, holder) {
    this.#addon.putInside(entry.id, holder.id);
  }

  /** Who waits for whom, if a request that waits is known to be part of a deadlock; otherwise `null`. */
  deadlock({ id }) {
    return this.#addon.deadlock(id);
  }

  /**
   * Asks for a snapshot, or, given a name, who holds that. Throws an OperationError where the addon
   * cannot.
   */
  query(entry, manager, name) {
    const addon = this.#addon;
    let answer;
    try {
      answer = name === null ? addon.query(manager) : addon.queryHolder(manager, name);
      entry.id = answer >>> addon.ID_SHIFT;
      this.#entries[entry.id] = entry;
      this.#begin(entry, answer);
    } catch (error) {
      if (answer === undefined) throw operationError(error);
      entry.news = -1;
      entry.isLeft = true;
      entry.next = this.left;
      this.left = entry;
      this.wakeLoop();
      throw error;
    }
  }

  /**
   * Begins to look at the bucket of a lock manager, or at all of its user agent, and asks for the first news.
   * Throws an OperationError where the addon cannot.
   *
   * @param {string | null} name
   */
  look(entry, manager, name, allBuckets) {
    const addon = this.#addon;
    let answer;
    try {
      answer = addon.look(manager, name, allBuckets);
      entry.id = answer >>> addon.ID_SHIFT;
      this.#entries[entry.id] = entry;
    } catch (error) {
      if (answer === undefined) throw operationError(error);
      entry.news = -1;
      entry.isLeft = true;
      entry.next = this.left;
      this.left = entry;
      this.wakeLoop();
      throw error;
    }
  }

  /** Asks for the next news of a look. */
  lookOn({ id }) {
    this.#addon.lookOn(id);
  }

  /**
   * The news of a look.
   *
   * @returns {object[]}
   */
  looked({ id }) {
    return jsonParse(this.#addon.looked(id));
  }

  /**
   * Releases a lock, aborts a request, ends a look, or throws an answer away; then takes the news of what has been
   * decided, by this or by others, until there is no more, or somebody wakes us for it.
   *
   * @param {Entry | null} entry  `null`: only the news
   */
  release(entry) {
    const addon = this.#addon;
    let news;
    let told = null;
    try {
      if (entry === null) {
        news = addon.next();
      } else {
        const { id } = entry;
        news = addon.release(id);
        entry.id = -1;
        this.#entries[id] = undefined;
      }
      while (news !== addon.NOTHING) {
        told = this.#entries[news >>> addon.ID_SHIFT];
        if (told !== undefined) tell(told, news & addon.STATUS, addon);
        told = undefined;
        if ((news & addon.MORE) === 0) return;
        news = addon.next();
      }
    } catch (error) {
      if (news === undefined) throw error;
      if (told) {
        told.news = news & addon.STATUS;
        if (!told.isLeft) {
          told.isLeft = true;
          told.next = this.left;
          this.left = told;
        }
      }
      // Also for the rest, of which nobody else tells us.
      this.wakeLoop();
    }
  }

  /** What was left is told. */
  tell(entry) {
    tell(entry, entry.news, this.#addon);
  }

  /** Why a request has failed, or how its lock was lost: then the cause says it in a form for programs. */
  failure({ id }) {
    const failure = ownArray();
    this.#addon.failure(id, failure);
    // By index, here and below: how arrays are taken apart can be replaced.
    const error = new DOMException(failure[1], failure[0]);
    const code = failure[2];
    const clientId = failure[3];
    if (code !== null) {
      const value = lossCause(failure[1], code, clientId);
      defineProperty(error, 'cause', { __proto__: null, value, writable: true, configurable: true });
    }
    return error;
  }

  fencingToken({ id }) {
    return this.#addon.token(id);
  }

  /**
   * The answer to a question, as the dictionary LockManagerSnapshot:
   * <https://w3c.github.io/web-locks/#dictdef-lockmanagersnapshot>
   */
  snapshot({ id }) {
    const { SHARED } = this.#addon;
    const names = ownArray();
    const clientIds = ownArray();
    const facts = this.#addon.snapshot(id, names, clientIds);
    const heldCount = facts[0];
    // https://webidl.spec.whatwg.org/#dictionary-to-js-value: members in the order of the alphabet.
    const infos = (start, end) => arrayOf(end - start, (nth) => {
      const index = start + nth;
      const mode = (facts[2 * index + 1] & SHARED) !== 0 ? 'shared' : 'exclusive';
      return { clientId: clientIds[facts[2 * index + 2]], mode, name: names[index] };
    });
    return { held: infos(0, heldCount), pending: infos(heldCount, names.length) };
  }

  /**
   * One of those who hold a name.
   *
   * @typedef {object} Holder
   * @property {string} clientId
   * @property {number | null} age  milliseconds; `null`, as below, if the reach does not know
   * @property {{ pid: number, command: string, host: string } | null} process
   *
   * @returns {Holder | null} `null` if nobody does
   */
  holder({ id }) {
    const told = ownArray();
    this.#addon.holder(id, told);
    if (told.length === 0) return null;
    const process = told[2] === null ? null : { pid: told[2], command: told[3], host: told[4] };
    return { clientId: told[0], age: told[1], process };
  }

  /** Tells what the addon has answered at once. */
  #begin(entry, answer) {
    const addon = this.#addon;
    tell(entry, answer & addon.STATUS, addon);
    // A thief's victims may be our own.
    if ((answer & addon.MORE) !== 0) this.release(null);
  }

  /** A task of the addon: others have decided something, or this realm has woken its own event loop. */
  #wake() {
    this.tasks.offerTask();
    try {
      while (this.left !== null) {
        const { left } = this;
        this.left = left.next;
        left.finish();
      }
      this.release(null);
    } finally {
      this.tasks.withdrawTask();
      if (this.left !== null) this.wakeLoop();
    }
  }
}

function tell(entry, status, { FAILED, GRANTED, PENDING }) {
  if (status === GRANTED) entry.onGranted();
  else if (status === PENDING) entry.onPending();
  else if (status === FAILED) entry.onFailed();
  else entry.onUnavailable();
}

/** How a lock was lost, for programs. */
function lossCause(message, code, clientId) {
  const cause = new Error(clientId === null ? message : `${message}, by client ${clientId}`);
  cause.stack = `Error: ${cause.message}`; // where it was made says nothing
  cause.code = code;
  if (clientId !== null) cause.clientId = clientId;
  return cause;
}

function operationError({ message }) {
  return new DOMException(message, 'OperationError');
}

// What programs put on the prototype of all objects must not get in the way of our members.
Object.setPrototypeOf(Realm.prototype, null);

/**
 * The asynchronous context in which the module was loaded. What the addon is woken by keeps the context in
 * which it is made, and with that of a first request what a program has put there: jest, its test file.
 */
const loading = new AsyncResource('navlock');

let realm;

/** Throws why there is no addon. */
function getRealm() {
  return (realm ??= loading.runInAsyncScope(() => new Realm(findAddon().addon)));
}

module.exports = { getRealm };
