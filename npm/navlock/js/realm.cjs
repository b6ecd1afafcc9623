'use strict';
// The realm of this thread of JavaScript: its instance of the addon, and the entries that are told the addon's news.
//
// The addon answers at once where it can. Other answers come out of `addon.next()` later: when the addon wakes
// this realm, or when one of our own calls has decided them. An answer is a number, put together as the addon's
// constants say (src/protocol.rs). Only this file reads these numbers.
//
// This is one file because the addon is a private field of one class, so that no other code can reach it: every call
// of the addon stands here.

const { AsyncResource } = require('node:async_hooks');

const {
  DOMException, Error, FinalizationRegistry, RangeError, arrayFilter, arrayOf, defineProperty, jsonParse, ownArray, reflectDefine, registerFinalization,
  unregisterFinalization,
} = require('./primordials.cjs');
const { findAddon } = require('./addon.cjs');
const { KeepAlive } = require('./keep-alive.cjs');
const { TaskQueue } = require('./task-queue.cjs');

/**
 * Something that was asked of the addon: a request, a query or a look. Each entry is told its news in the turn in
 * which the news becomes known. Callbacks run later: these functions run no code of a program, except for the
 * listeners of a lost lock.
 *
 * @typedef {object} Entry
 * @property {number} id  the addon's; -1 if the addon does not know the entry, or not any more
 * @property {() => void} onPending  the answer comes later
 * @property {() => void} onGranted  a lock is held; a question is answered
 * @property {() => void} onUnavailable  the lock could not be had at once
 * @property {() => void} onFailed  the request has failed, or the lock that it had become is lost
 * @property {() => void} end  gives up the entry; nobody is told
 * @property {import('./requests.cjs').OpenManager} [manager]  of a request
 * @property {import('./requests.cjs').OpenManager | null} [watched]  of a look that has begun
 * @property {number} news  the status that the entry was told last. It may be told again; see {@link Realm.isBehind}.
 */

class Realm {
  #addon;

  /**
   * Entries by id. The addon uses ids again, so that this array does not grow. {@link release} tells the addon of the
   * end of each id exactly once.
   *
   * @type {(Entry | undefined)[]}
   */
  #entries = ownArray();

  /**
   * Some work has stopped halfway, because the stack was full. Whoever notices that sets this and calls `wakeLoop`. A
   * task then tells each entry its last news again. So no entry does anything that may not be done twice.
   */
  isBehind = false;

  tasks = new TaskQueue();

  /** The addon holds this object weakly: once the object was collected, the realm has ended. */
  #takeNewsInTask = () => this.#wake();

  #managers = new FinalizationRegistry((number) => this.#addon.closeManager(number));

  #userAgents = new FinalizationRegistry((number) => this.#addon.closeUserAgent(number, false));

  constructor(addon) {
    this.#addon = addon;
    this.wakeLoop = addon.wakeLoop;
    this.keepAlive = new KeepAlive(addon.keepAlive);
    addon.listen(this.#takeNewsInTask);
    // With this, a realm lives as long as its global object, even if the module was collected. It ends with its
    // thread, or with a context, as those in which test runners run files. A global object that is frozen takes
    // nothing: then the realm lives as long as the module.
    reflectDefine(globalThis, Symbol('navlock'), { value: Object.freeze(() => this), configurable: true });
  }

  /** Opens a user agent whose locks all of this process sees, or nobody else. Returns its number. */
  openProcess(isPrivate) {
    return this.#addon.openUserAgent(this.#addon.PROCESS, isPrivate, null, null);
  }

  /** Opens the user agent of the broker at this socket. Returns its number. */
  openMachine(socket, program) {
    return this.#addon.openUserAgent(this.#addon.MACHINE, false, socket, program);
  }

  /** Opens the user agent that several users of this machine share. Returns its number. */
  openSystem() {
    return this.#addon.openUserAgent(this.#addon.SYSTEM, false, null, null);
  }

  /** Forgets a user agent when this object is collected. */
  holdUserAgent(object, number) {
    registerFinalization(this.#userAgents, object, number, object);
  }

  /** Ends a user agent, with all requests and locks of its lock managers. */
  closeUserAgent(object, number) {
    // First, while it is still known which bucket each look is at.
    const looks = this.#looks(({ userAgent }) => userAgent === number);
    try {
      for (let at = 0; at < looks.length; at++) looks[at].end();
    } finally {
      // From now on another user agent may have this number.
      unregisterFinalization(this.#userAgents, object);
      this.#addon.closeUserAgent(number, true);
    }
  }

  /**
   * Opens a lock manager of a bucket. The addon forgets it when it was collected.
   *
   * @returns {import('./requests.cjs').OpenManager}
   */
  openManager(userAgent, bucket) {
    const manager = { number: this.#addon.openManager(userAgent, bucket), realm: this, userAgent };
    registerFinalization(this.#managers, manager, manager.number);
    return manager;
  }

  /**
   * Ends agents while the rest of the realm goes on. Nobody is told: promises of these agents never settle.
   *
   * Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
   *
   * @param {(manager: import('./requests.cjs').OpenManager) => boolean} isOver  says of a lock manager whether its agent ends
   */
  terminate(isOver) {
    const requests = arrayFilter(this.#entries, (entry) => entry?.manager !== undefined && isOver(entry.manager));
    for (const request of requests) request.isAbandoned = true;
    // 1. Requests. 2. Locks, with those that were granted meanwhile.
    for (const isHeld of [false, true]) {
      for (const request of requests) {
        if (request.id >= 0 && request.isHeld === isHeld) request.end();
      }
    }
    for (const look of this.#looks(isOver)) look.abandon();
  }

  /** The looks that have begun by a lock manager for which `areThey` is true. */
  #looks(areThey) {
    return arrayFilter(this.#entries, (entry) => entry?.watched != null && areThey(entry.watched));
  }

  clientId(manager) {
    return this.#addon.clientId(manager);
  }

  /** The name of a lock manager's bucket. */
  bucket(manager) {
    return this.#addon.bucket(manager);
  }

  /** Whether locks of this lock manager have leases and end by themselves, as on etcd. */
  hasLease(manager) {
    return this.#addon.hasLease(manager) === 1;
  }

  /** Requests a lock. Throws an OperationError where the addon cannot. */
  request(entry, manager, name, { ifAvailable, isShared, signal, steal, why }) {
    const addon = this.#addon;
    let flags = 0;
    if (isShared) flags |= addon.SHARED;
    if (ifAvailable) flags |= addon.IF_AVAILABLE;
    if (steal) flags |= addon.STEAL;
    if (signal !== null) flags |= addon.SIGNAL;
    if (entry.followed !== null) {
      if (entry.followed.failsOnDeadlock) flags |= addon.FAILS_ON_DEADLOCK;
      if (entry.followed.tellsDeadlock) flags |= addon.TELLS_DEADLOCK;
    }
    if (why === '') this.#call(addon.request, entry, null, manager, name, flags);
    else this.#call(addon.requestFor, entry, null, manager, name, flags, why);
  }

  /** Says inside which held lock a waiting request was made. */
  putInside(entry, holder) {
    this.#addon.putInside(entry.id, holder.id);
  }

  /** The text that says who waits for whom, if a waiting request is known to be part of a deadlock; otherwise `null`. */
  deadlock({ id }) {
    return this.#addon.deadlock(id);
  }

  /**
   * Asks for a snapshot, or, with a name, for the holder of that name. Throws an OperationError where the addon
   * cannot.
   */
  query(entry, manager, name) {
    this.#call(name === null ? this.#addon.query : this.#addon.queryHolder, entry, null, manager, name);
  }

  /**
   * Begins to look at the bucket of a lock manager, or at all buckets of its user agent, and asks for the first news.
   * Throws an OperationError where the addon cannot.
   *
   * @param {string | null} name
   */
  look(entry, manager, name, allBuckets) {
    this.#call(this.#addon.look, entry, null, manager, name, allBuckets);
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
   * Releases a lock, aborts a request, ends a look, or throws an answer away. Then takes all news, whether this call
   * has caused it or others have, until there is no more news now. The addon wakes the realm for later news.
   *
   * @param {Entry | null} entry  `null`: take the news and end nothing
   */
  release(entry) {
    if (entry === null) this.#call(this.#addon.next, null, null);
    else this.#call(this.#addon.release, null, entry, entry.id);
  }

  /**
   * Calls a function of the addon, and tells the news that it returns.
   *
   * The stack may be full here, so that any call throws. Until the addon has answered, nothing has happened. After that
   * the news must not get lost, and this frame has room for another call of the addon.
   *
   * @param {Entry | null} asked  what is asked for by this call
   * @param {Entry | null} released  what is given up by this call
   */
  #call(call, asked, released, first, second, third, fourth) {
    const addon = this.#addon;
    let answer;
    try {
      answer = call(first, second, third, fourth);
      if (asked !== null) {
        asked.id = answer >>> addon.ID_SHIFT;
        this.#entries[asked.id] = asked;
      } else if (released !== null) {
        this.#entries[released.id] = undefined;
        released.id = -1;
      }
      while (answer !== addon.NOTHING) {
        const told = this.#entries[answer >>> addon.ID_SHIFT];
        if (told !== undefined) {
          told.news = answer & addon.STATUS;
          tell(told, addon);
        }
        if ((answer & addon.MORE) === 0) return;
        answer = addon.next();
      }
    } catch (error) {
      if (answer === undefined) throw asked === null ? error : operationError(error);
      this.isBehind = true;
      this.wakeLoop();
      if (asked !== null) throw error;
    }
  }

  /** The error of a request that has failed or whose lock was lost. For a lost lock, its cause says how, for programs. */
  failure({ id }) {
    const failure = ownArray();
    this.#addon.failure(id, failure);
    // By index, here and below: programs can replace the iterator that destructuring uses.
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
   * The answer to a query, as the dictionary LockManagerSnapshot:
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
   * One holder of a name.
   *
   * @typedef {object} Holder
   * @property {string} clientId
   * @property {number | null} age  milliseconds; `null`, as below, if the reach does not know
   * @property {{ pid: number, command: string, host: string } | null} process
   *
   * @returns {Holder | null} `null` if nobody holds the name
   */
  holder({ id }) {
    const told = ownArray();
    this.#addon.holder(id, told);
    if (told.length === 0) return null;
    const process = told[2] === null ? null : { pid: told[2], command: told[3], host: told[4] };
    return { clientId: told[0], age: told[1], process };
  }

  /** A task of the addon: others have decided something, or this realm has woken its own event loop. */
  #wake() {
    this.tasks.offerTask();
    try {
      if (this.isBehind) this.#catchUp();
      this.release(null);
    } finally {
      this.tasks.withdrawTask();
    }
  }

  /** Does again what may have stopped halfway. */
  #catchUp() {
    this.isBehind = false;
    for (let id = 0; id < this.#entries.length; id++) {
      const entry = this.#entries[id];
      if (entry === undefined) continue;
      // Nobody has the promise of a request that has failed.
      if (entry.isAbandoned) entry.end();
      else if (entry.source != null && entry.source.aborted) entry.signalToAbort(entry.source.reason);
      else tell(entry, this.#addon);
    }
  }
}

/** Tells an entry its news. */
function tell(entry, { FAILED, GRANTED, PENDING }) {
  const status = entry.news;
  if (status === GRANTED) entry.onGranted();
  else if (status === PENDING) entry.onPending();
  else if (status === FAILED) entry.onFailed();
  else entry.onUnavailable();
}

/** How a lock was lost, for programs. */
function lossCause(message, code, clientId) {
  const cause = new Error(clientId === null ? message : `${message}, by client ${clientId}`);
  cause.stack = `Error: ${cause.message}`; // the place at which the error was made says nothing
  cause.code = code;
  if (clientId !== null) cause.clientId = clientId;
  return cause;
}

function operationError(error) {
  return error instanceof RangeError ? error : new DOMException(error.message, 'OperationError');
}

// Members that programs put on Object.prototype must not be taken for ours.
Object.setPrototypeOf(Realm.prototype, null);

/**
 * The asynchronous context in which the module was loaded. The addon's waker keeps the context in which it is made.
 * The context of a first request would keep what a program has put there; in jest, that is its test file.
 */
const loading = new AsyncResource('navlock');

let realm;

/** Throws the reason why there is no addon. */
function getRealm() {
  return (realm ??= loading.runInAsyncScope(() => new Realm(findAddon().addon)));
}

module.exports = { getRealm };
