'use strict';
// User agents and their buckets: who can see whose locks.

const { DOMException, TypeError } = require('./primordials.cjs');
const { createLockManager, reopenLockManager } = require('./lock-manager.cjs');
const { getRealm } = require('./realm.cjs');
const { settings, toBucket, toReach, toSocket } = require('./settings.cjs');
const { WeakValues } = require('./weak-values.cjs');

/** The user agent itself. Several {@link UserAgent} objects may stand for one. */
class SharedUserAgent {
  /** The number that the addon knows the user agent by, once it is open. -1 before. */
  #number = -1;
  #place;
  #isClosed = false;
  /**
   * The lock manager of each bucket, by the bucket's name, so that a bucket always has the same object. The
   * values are weak: a program may use a bucket for each of its tenants, for ever.
   */
  #managers = new WeakValues();

  /** @param {Place} place */
  constructor(place) {
    this.#place = place;
  }

  get reach() {
    return this.#place.reach;
  }

  /**
   * Throws if there is no addon, or it cannot start what the reach needs.
   *
   * @returns {import('./requests.cjs').OpenManager}
   */
  openManager(bucket) {
    if (this.#isClosed) throw closed();
    const realm = getRealm();
    try {
      if (this.#number === -1) {
        this.#number = open(realm, this.#place);
        realm.holdUserAgent(this, this.#number);
      }
      return realm.openManager(this.#number, bucket);
    } catch (error) {
      throw new DOMException(`${error.message} (bucket ${JSON.stringify(bucket)})`, 'OperationError');
    }
  }

  managerOf(bucket) {
    let locks = this.#managers.get(bucket);
    if (locks === undefined) {
      locks = createLockManager(() => this.openManager(bucket));
      this.#managers.set(bucket, locks);
    }
    return locks;
  }

  /** Ends all requests and locks of the user agent, if it is private and does not replace the default one. */
  close() {
    if (this.#place.isPrivate && this !== replaced) this.#end();
  }

  /** Ends all requests and locks of the user agent, also if it replaces the default one. No promise settles. */
  terminate() {
    const number = this.#number;
    if (number !== -1) getRealm().terminate(({ userAgent }) => userAgent === number);
    this.#end();
  }

  #end() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#number !== -1) getRealm().closeUserAgent(this, this.#number);
  }

  /** Makes `locks` the lock manager of the bucket. It was made before its user agent and bucket were known. */
  adopt(bucket, locks) {
    this.#managers.set(bucket, locks);
  }
}

function closed() {
  return new DOMException('the user agent has been closed', 'InvalidStateError');
}

/**
 * Which user agent is meant.
 *
 * @typedef {object} Place
 * @property {'process' | 'machine' | 'system'} reach
 * @property {boolean} isPrivate
 * @property {string | null} socket  of the broker, for the reach `machine`; `null` if none is named
 */

/** @param {Place} place */
function open(realm, { isPrivate, reach, socket }) {
  if (reach === 'system') return realm.openSystem();
  return reach === 'process' ? realm.openProcess(isPrivate) : realm.openMachine(socket, settings.program);
}

/** The user agents that are not private, by reach and socket. */
const shared = new WeakValues();

/** @param {Place} place */
function userAgentAt(place) {
  if (place.isPrivate) return new SharedUserAgent(place);
  const key = `${place.reach} ${place.socket ?? ''}`;
  let userAgent = shared.get(key);
  if (userAgent === undefined) shared.set(key, (userAgent = new SharedUserAgent(place)));
  return userAgent;
}

/** The lock manager of the default user agent's default bucket, as the settings have them. */
const locks = createLockManager(openDefault);

function openDefault() {
  return defaultUserAgent().openManager(settings.bucket);
}

/** The default user agent. It is kept, so that `createUserAgent` for the same place finds `locks` in it. */
let ofDefaults;

/** The user agent that replaces the default one; see test-file.cjs. */
let replaced;

/**
 * Replaces the default user agent, which a program gets if it names no reach and no socket, by a new private one.
 *
 * @returns {SharedUserAgent}
 */
function replaceDefaultUserAgent() {
  replaced = ofDefaults = new SharedUserAgent({ reach: 'process', isPrivate: true, socket: null });
  reopenLockManager(locks, openDefault);
  return replaced;
}

/** Adds an agent to a user agent, in the default bucket, with a lock manager of its own. */
function createAgent(userAgent) {
  return createLockManager(() => userAgent.openManager(settings.bucket));
}

function defaultUserAgent() {
  const { bucket, reach } = settings;
  const userAgent = ofDefaults ?? userAgentAt({ reach, isPrivate: false, socket: reach === 'machine' ? settings.socket : null });
  userAgent.adopt(bucket, locks);
  ofDefaults = userAgent;
  return userAgent;
}

/** The owner of buckets: two of them never see each other's locks. */
class UserAgent {
  #shared;
  #locks;
  #isClosed = false;

  constructor(shared, bucket) {
    this.#shared = shared;
    this.#locks = shared.managerOf(bucket);
  }

  get reach() {
    return this.#shared.reach;
  }

  /** The lock manager of the bucket that {@link createUserAgent} was given, or the default one. */
  get locks() {
    if (this.#isClosed) throw closed();
    return this.#locks;
  }

  /**
   * From now on `locks` and `bucket()` throw. If the user agent is private, all its requests and locks end. If
   * it is shared, they go on.
   */
  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#locks = null;
    this.#shared.close();
  }

  /** A storage bucket: the same name in two buckets is two locks. */
  bucket(name) {
    if (this.#isClosed) throw closed();
    return new Bucket(this.#shared.managerOf(toBucket(name, 'UserAgent.bucket: the name')));
  }
}

// Node has this symbol since version 20, but not all runtimes have it.
if (typeof Symbol.dispose === 'symbol') {
  Object.defineProperty(UserAgent.prototype, Symbol.dispose, { value: UserAgent.prototype.close, writable: true, configurable: true });
}

class Bucket {
  #locks;

  constructor(locks) {
    this.#locks = locks;
  }

  get locks() {
    return this.#locks;
  }
}

/** Creates a user agent. Its first request opens it. Throws a TypeError for options that make no sense. */
function createUserAgent(options = {}) {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError('createUserAgent: the options are not an object');
  }
  const { bucket, private: isPrivate = false, reach, socket } = options;
  if (typeof isPrivate !== 'boolean') throw new TypeError('createUserAgent: private is not a boolean');
  const chosen = reach === undefined ? settings.reach : toReach(reach, 'createUserAgent: reach');
  if (isPrivate && chosen !== 'process') {
    throw new TypeError('createUserAgent: only the reach "process" has private user agents; for the reach "machine" give a socket of their own');
  }
  if (socket !== undefined && chosen !== 'machine') throw new TypeError(`createUserAgent: the reach "${chosen}" has no socket`);
  const given = socket === undefined ? null : toSocket(socket, 'createUserAgent: socket');
  const name = bucket === undefined ? settings.bucket : toBucket(bucket, 'createUserAgent: bucket');
  if (!isPrivate) adoptDefaults();
  if (replaced !== undefined && reach === undefined && socket === undefined && !isPrivate) return new UserAgent(replaced, name);
  const place = { reach: chosen, isPrivate, socket: chosen === 'machine' ? given ?? settings.socket : null };
  return new UserAgent(userAgentAt(place), name);
}

/** Makes `locks` the lock manager of the default user agent's default bucket, if the settings make sense. */
function adoptDefaults() {
  try {
    defaultUserAgent();
  } catch {
    // The settings make no sense. The first request of `locks` says so.
  }
}

module.exports = { createAgent, createUserAgent, locks, replaceDefaultUserAgent };
