'use strict';
// User agents and their buckets: who can see whose locks.

const path = require('node:path');

const { DOMException, Map, TypeError, isWellFormed, mapGet, mapSet } = require('./primordials.cjs');
const { environment } = require('./environment.cjs');
const { createLockManager } = require('./lock-manager.cjs');
const { MAX_BUCKET, defaultBucket } = require('./origin.cjs');
const { findProgram } = require('./program.cjs');
const { getAddon } = require('./requests.cjs');

const REACHES = ['process', 'machine'];

/** What is behind all {@link UserAgent} objects that mean the same user agent. */
class SharedUserAgent {
  #number = -1;
  #reach;
  #isPrivate;
  #socket;
  /** Lock managers by the bucket's name: one each, so that they are the same object. */
  #managers = new Map();

  constructor(reach, isPrivate, socket) {
    this.#reach = reach;
    this.#isPrivate = isPrivate;
    this.#socket = socket;
  }

  get reach() {
    return this.#reach;
  }

  /** Throws if there is no addon, or it cannot start what the reach needs. */
  openManager(bucket) {
    const addon = getAddon();
    try {
      if (this.#number === -1) {
        const machine = this.#reach === 'machine';
        this.#number = addon.openUserAgent(machine ? 1 : 0, this.#isPrivate, this.#socket, machine ? findProgram() : null);
      }
      return addon.openManager(this.#number, bucket);
    } catch (error) {
      throw new DOMException(error.message, 'OperationError');
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

/** By what tells user agents that are not private from each other. */
const shared = new Map();

function sharedUserAgent(reach, socket) {
  const key = reach === 'process' ? reach : `${reach} ${socket ?? ''}`;
  let userAgent = mapGet(shared, key);
  if (userAgent === undefined) mapSet(shared, key, (userAgent = new SharedUserAgent(reach, false, socket)));
  return userAgent;
}

/** The lock manager of the default user agent's default bucket, as the environment has them. */
const locks = createLockManager(() => {
  const { bucket, userAgent } = defaults();
  return userAgent.openManager(bucket);
});

let found;

/** What is meant where a program says nothing. It is looked up once, when it is needed. */
function defaults() {
  if (found === undefined) {
    const reach = toReach(environment('NAVLOCK_REACH') ?? 'machine', 'NAVLOCK_REACH');
    const bucket = toBucket(environment('NAVLOCK_BUCKET') ?? defaultBucket(), 'NAVLOCK_BUCKET');
    const userAgent = sharedUserAgent(reach, reach === 'machine' ? defaultSocket() : null);
    userAgent.adopt(bucket, locks);
    found = { bucket, userAgent };
  }
  return found;
}

function defaultSocket() {
  const socket = environment('NAVLOCK_SOCKET');
  return socket === null ? null : path.resolve(socket);
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
  const chosen = reach === undefined ? defaults().userAgent.reach : toReach(reach, 'createUserAgent: reach');
  if (isPrivate && chosen !== 'process') {
    throw new TypeError('createUserAgent: only the reach "process" has private user agents; for the reach "machine" give a socket of their own');
  }
  if (socket !== undefined) {
    if (chosen !== 'machine') throw new TypeError(`createUserAgent: the reach "${chosen}" has no socket`);
    if (typeof socket !== 'string' || socket === '') throw new TypeError('createUserAgent: socket is not a path');
  }
  const name = bucket === undefined ? bucketByDefault() : toBucket(bucket, 'createUserAgent: bucket');
  if (isPrivate) return new UserAgent(new SharedUserAgent(chosen, true, null), name);
  const where = chosen === 'machine' ? (socket === undefined ? defaultSocket() : path.resolve(socket)) : null;
  adoptDefaults();
  return new UserAgent(sharedUserAgent(chosen, where), name);
}

function bucketByDefault() {
  return toBucket(environment('NAVLOCK_BUCKET') ?? defaultBucket(), 'NAVLOCK_BUCKET');
}

/** Lets what is the default one turn out to be `locks`. */
function adoptDefaults() {
  try {
    defaults();
  } catch {
    // The environment makes no sense, which whoever uses `locks` will be told.
  }
}

function toReach(value, what) {
  if (!REACHES.includes(value)) throw new TypeError(`${what} is ${JSON.stringify(value)}, not "process" or "machine"`);
  return value;
}

/** Names of buckets are text, unlike those of locks. */
function toBucket(value, what) {
  if (typeof value !== 'string' || value === '') throw new TypeError(`${what} is not a name, that is, a string that is not empty`);
  if (!isWellFormed(value)) throw new TypeError(`${what} has a lone surrogate`);
  const length = Buffer.byteLength(value);
  if (length > MAX_BUCKET) throw new TypeError(`${what} has ${length} bytes, more than ${MAX_BUCKET}`);
  return value;
}

module.exports = { createUserAgent, locks };
