'use strict';
// What this thread of JavaScript has: an instance of the addon, and who is told of its news.
//
// The addon answers at once where it can. What it cannot answer yet comes out of `addon.next()`
// later: when it wakes this realm, or when one of our own calls has decided it. Its answers are
// numbers, put together as its own constants say (src/protocol.rs). Only this file reads them.

const { DOMException } = require('./primordials.cjs');
const { findAddon } = require('./addon.cjs');
const { KeepAlive } = require('./keep-alive.cjs');
const { TaskQueue } = require('./task-queue.cjs');

/**
 * What was asked of the addon: a request or a query. It is told how it stands in the turn in which
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
 * @property {Entry | null} next  of those that were abandoned
 */

class Realm {
  #addon;

  /**
   * By id. The addon uses ids again, so that this does not grow, and is told of the end of each
   * exactly once, by {@link release}.
   *
   * @type {(Entry | undefined)[]}
   */
  #entries = [];

  /** @type {Entry | null} the first of those that nobody will hear of */
  #abandoned = null;

  tasks = new TaskQueue();

  constructor(addon) {
    this.#addon = addon;
    this.keepAlive = new KeepAlive(addon.keepAlive);
    addon.listen(() => this.#wake());
  }

  /** A user agent whose locks are seen by all of this process, or by nobody else. Its number. */
  openProcess(isPrivate) {
    return this.#addon.openUserAgent(this.#addon.PROCESS, isPrivate, null, null);
  }

  /** The user agent of the broker at this socket. Its number. */
  openMachine(socket, program) {
    return this.#addon.openUserAgent(this.#addon.MACHINE, false, socket, program);
  }

  /** A lock manager of a bucket. Its number. */
  openManager(userAgent, bucket) {
    return this.#addon.openManager(userAgent, bucket);
  }

  clientId(manager) {
    return this.#addon.clientId(manager);
  }

  /** The name of its bucket. */
  bucket(manager) {
    return this.#addon.bucket(manager);
  }

  /** Requests a lock. Throws an OperationError where the addon cannot. */
  request(entry, manager, name, { ifAvailable, isShared, steal }) {
    const addon = this.#addon;
    let flags = 0;
    if (isShared) flags |= addon.SHARED;
    if (ifAvailable) flags |= addon.IF_AVAILABLE;
    if (steal) flags |= addon.STEAL;
    let answer;
    try {
      answer = addon.request(manager, name, flags);
      entry.id = answer >>> addon.ID_SHIFT;
      this.#entries[entry.id] = entry;
      this.#begin(entry, answer);
    } catch (error) {
      if (answer === undefined) throw operationError(error);
      // The stack is full: in this frame there was room for a call of the addon, but perhaps for no other.
      entry.next = this.#abandoned;
      this.#abandoned = entry;
      addon.ring();
      throw error;
    }
  }

  /** Asks for a snapshot. Throws an OperationError where the addon cannot. */
  query(entry, manager) {
    const addon = this.#addon;
    let answer;
    try {
      answer = addon.query(manager);
      entry.id = answer >>> addon.ID_SHIFT;
      this.#entries[entry.id] = entry;
      this.#begin(entry, answer);
    } catch (error) {
      if (answer === undefined) throw operationError(error);
      // As above.
      entry.next = this.#abandoned;
      this.#abandoned = entry;
      addon.ring();
      throw error;
    }
  }

  /** Releases a lock, aborts a request, or throws an answer away. */
  release(entry) {
    const { id } = entry;
    entry.id = -1;
    this.#entries[id] = undefined;
    this.#takeNews(this.#addon.release(id));
  }

  /** Has an entry ended in a task, because nobody will hear of it. */
  abandon(entry) {
    entry.next = this.#abandoned;
    this.#abandoned = entry;
    this.#addon.ring();
  }

  /** Why a request has failed, or how its lock was lost. */
  failure({ id }) {
    // By index, here and below: how arrays are taken apart can be replaced.
    const failure = this.#addon.failure(id);
    return new DOMException(failure[1], failure[0]);
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
    const snapshot = this.#addon.snapshot(id);
    const names = snapshot[0];
    const facts = snapshot[1];
    const clientIds = snapshot[2];
    const heldCount = snapshot[3];
    // https://webidl.spec.whatwg.org/#dictionary-to-js-value: members in the order of the alphabet.
    const infos = (start, end) => {
      const list = [];
      for (let index = start; index < end; index++) {
        const mode = (facts[2 * index] & SHARED) !== 0 ? 'shared' : 'exclusive';
        list[index - start] = { clientId: clientIds[facts[2 * index + 1]], mode, name: names[index] };
      }
      return list;
    };
    return { held: infos(0, heldCount), pending: infos(heldCount, names.length) };
  }

  /** Tells what the addon has answered at once. */
  #begin(entry, answer) {
    const addon = this.#addon;
    tell(entry, answer & addon.STATUS, addon);
    // A thief's victims may be our own.
    if ((answer & addon.MORE) !== 0) this.#takeNews(addon.next());
  }

  /** What has been decided, by others or by a call of ours: until there is no more, or nobody wakes us. */
  #takeNews(news) {
    const addon = this.#addon;
    try {
      while (news !== addon.NOTHING) {
        const entry = this.#entries[news >>> addon.ID_SHIFT];
        if (entry !== undefined) tell(entry, news & addon.STATUS, addon);
        if ((news & addon.MORE) === 0) return;
        news = addon.next();
      }
    } catch (error) {
      // The stack was full before. The addon counts on us: nobody wakes us for the rest.
      addon.ring();
      throw error;
    }
  }

  /** A task of the addon: others have decided something, or {@link abandon} has asked for it. */
  #wake() {
    this.tasks.offerTask();
    try {
      while (this.#abandoned !== null) {
        const entry = this.#abandoned;
        this.#abandoned = entry.next;
        entry.end();
      }
      this.#takeNews(this.#addon.next());
    } finally {
      this.tasks.withdrawTask();
    }
  }
}

function tell(entry, status, { FAILED, GRANTED, PENDING }) {
  if (status === GRANTED) entry.onGranted();
  else if (status === PENDING) entry.onPending();
  else if (status === FAILED) entry.onFailed();
  else entry.onUnavailable();
}

function operationError({ message }) {
  return new DOMException(message, 'OperationError');
}

// What programs put on the prototype of all objects must not get in the way of our members.
Object.setPrototypeOf(Realm.prototype, null);

let realm;

/** Throws why there is no addon. */
function getRealm() {
  return (realm ??= new Realm(findAddon().addon));
}

module.exports = { getRealm };
