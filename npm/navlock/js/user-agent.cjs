'use strict';
// User agents and their buckets: who can see whose locks.

const { DOMException, Map, TypeError, mapGet, mapSet } = require('./primordials.cjs');
const { createLockManager } = require('./lock-manager.cjs');
const { getRealm } = require('./realm.cjs');
const { settings, toBucket, toReach, toSocket } = require('./settings.cjs');

/** What is behind all {@link UserAgent} objects that mean the same user agent. */
class SharedUserAgent {
  /** The addon's of it, once it is open. */
  #number = -1;
  #place;
  /** Lock managers by the bucket's name: one each, so that they are the same object. */
  #managers = new Map();

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
    const realm = getRealm();
    try {
      if (this.#number === -1) this.#number = open(realm, this.#place);
      return { number: realm.openManager(this.#number, bucket), realm };
    } catch (error) {
      throw new DOMException(`${error.message} (bucket ${JSON.stringify(bucket)})`, 'OperationError');
    }
  }

  managerOf(bucket) {
    let locks = mapGet(this.#managers, bucket);
    if (locks === undefined) {
      locks = createLockManager(() => this.openManager(bucket));
      mapSet(this.#managers, bucket, locks);
    }
    return locks;
  }

  /** `locks` has been made before it was known what it is the lock manager of. */
  adopt(bucket, locks) {
    mapSet(this.#managers, bucket, locks);
  }
}

/**
 * Which user agent is meant.
 *
 * @typedef {object} Place
 * @property {'process' | 'machine'} reach
 * @property {boolean} isPrivate
 * @property {string | null} socket  of reach `machine`, where it is not the usual one
 */

/** @param {Place} place */
function open(realm, { isPrivate, reach, socket }) {
  return reach === 'process' ? realm.openProcess(isPrivate) : realm.openMachine(socket, settings.program);
}

/** By what tells user agents that are not private from each other. */
const shared = new Map();

/** @param {Place} place */
function userAgentAt(place) {
  if (place.isPrivate) return new SharedUserAgent(place);
  const key = `${place.reach} ${place.socket ?? ''}`;
  let userAgent = mapGet(shared, key);
  if (userAgent === undefined) mapSet(shared, key, (userAgent = new SharedUserAgent(place)));
  return userAgent;
}

/** The lock manager of the default user agent's default bucket, as the settings have them. */
const locks = createLockManager(() => defaultUserAgent().openManager(settings.bucket));

function defaultUserAgent() {
  const { bucket, reach } = settings;
  const userAgent = userAgentAt({ reach, isPrivate: false, socket: reach === 'machine' ? settings.socket : null });
  userAgent.adopt(bucket, locks);
  return userAgent;
}

/** The owner of buckets: two of them never see each other's locks. */
class UserAgent {
  #shared;
  #bucket;

  constructor(shared, bucket) {
    this.#shared = shared;
    this.#bucket = bucket;
  }

  get reach() {
    return this.#shared.reach;
  }

  /** The lock manager of the bucket that {@link createUserAgent} was given, or the default one. */
  get locks() {
    return this.#shared.managerOf(this.#bucket);
  }

  /** A storage bucket: the same name in two buckets is two locks. */
  bucket(name) {
    return new Bucket(this.#shared.managerOf(toBucket(name, 'UserAgent.bucket: the name')));
  }
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

/** Opens nothing yet: that is for the first request. Throws a TypeError for what makes no sense. */
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
  const place = { reach: chosen, isPrivate, socket: chosen === 'machine' ? given ?? settings.socket : null };
  return new UserAgent(userAgentAt(place), name);
}

/** Lets what is the default one turn out to be `locks`. */
function adoptDefaults() {
  try {
    defaultUserAgent();
  } catch {
    // The settings make no sense, which whoever uses `locks` will be told.
  }
}

module.exports = { createUserAgent, locks };
