'use strict';
// What is left of section 3 for JavaScript where the rest of it is navlock-js: the interface objects, the
// tasks of the event loop, and what the engine has no function of Node-API for. All that is not about where
// section 3 stands is the package's own.

const { execFileSync } = require('node:child_process');
const path = require('node:path');
const process = require('node:process');

const { DOMException, TypeError, ownArray, refuseToClone, setImmediate } = require('../../js/primordials.cjs');
const { AbortAlgorithm, abortSourceOf, addAbortAlgorithm, removeAbortAlgorithm } = require('../../js/abort.cjs');
const { defineInterface, defineShown } = require('../../js/interface.cjs');
const { deferred } = require('../../js/deferred.cjs');
const { toPromise } = require('../../js/webidl.cjs');

const arrayPrototype = Array.prototype;
const { setPrototypeOf } = Object;

/** Whoever has it may construct. */
const key = {};

class Lock {
  #name;
  #mode;

  constructor() {
    if (arguments[0] !== key) throw new TypeError('Illegal constructor');
    this.#name = arguments[1];
    this.#mode = arguments[2];
    refuseToClone(this);
  }

  get name() {
    return this.#name;
  }

  get mode() {
    return this.#mode;
  }
}
defineInterface(Lock, ['name', 'mode']);
defineShown(Lock);

/** "Signal to abort the request", of a request that the addon knows by two numbers. */
class Algorithm extends AbortAlgorithm {
  constructor(realm, index, serial) {
    super();
    this.realm = realm;
    this.index = index;
    this.serial = serial;
  }

  signalToAbort(reason) {
    removeAbortAlgorithm(this);
    this.realm.addon.abort(this.index, this.serial, reason);
    this.realm.queue();
  }
}
setPrototypeOf(Algorithm.prototype, null);

/** An instance of the addon, and the tasks that it has. */
class Realm {
  /** What an abort algorithm that failed has left; see abort.cjs. */
  left = null;

  constructor(addon, bucket, isPrivate) {
    this.addon = addon;
    const { isDue, runTask, settle } = addon;
    this.task = () => {
      runTask();
      this.queue();
    };
    // A promise, or whatever else a callback has returned: it is awaited as the package awaits it.
    const react = async (returned, index, serial) => {
      let value;
      let failed = false;
      try {
        value = await toPromise(returned);
      } catch (error) {
        value = error;
        failed = true;
      }
      settle(index, serial, failed, value);
      this.queue();
    };
    /** How many tasks are to be queued: the addon counts up. */
    this.wanted = addon.open(bucket, isPrivate, {
      lock: (name, isShared) => new Lock(key, name, isShared ? 'shared' : 'exclusive'),
      domException: (message, name) => new DOMException(message, name),
      newList: ownArray,
      finishList: (list) => setPrototypeOf(list, arrayPrototype),
      react,
      isSignal: (value) => abortSourceOf(value) !== null,
      aborted: (signal) => abortSourceOf(signal).aborted,
      reason: (signal) => abortSourceOf(signal).reason,
      add: (signal, index, serial) => {
        const algorithm = new Algorithm(this, index, serial);
        addAbortAlgorithm(abortSourceOf(signal), algorithm);
        return algorithm;
      },
      remove: removeAbortAlgorithm,
      // The task in which we are woken will do, if none is before it.
      wake: () => (isDue() ? undefined : this.task()),
    });
  }

  /** To be called after each call of the addon. */
  queue() {
    const { wanted } = this;
    while (wanted[0] !== 0) {
      wanted[0]--;
      setImmediate(this.task);
    }
  }

  wakeLoop() {
    setImmediate(() => {
      for (let { left } = this; left !== null; { left } = this) {
        this.left = left.next;
        left.finish();
      }
    });
  }
}

/** The callback of a request that waits is called in the asynchronous context of the request. */
class Caller {
  lock = null;
  open = null;
  returned = null;

  constructor(callback) {
    this.callback = callback;
    /** What the addon calls. */
    this.call = (lock) => {
      if (this.open === null) return callback(lock);
      this.lock = lock;
      this.open();
      return this.returned;
    };
  }

  async wait(opened) {
    await opened;
    const { callback } = this;
    return callback(this.lock);
  }

  /** The request was not granted at once. */
  begin() {
    const { promise, resolve } = deferred();
    this.open = resolve;
    this.returned = this.wait(promise);
  }
}

class LockManager {
  #realm;

  constructor() {
    if (arguments[0] !== key) throw new TypeError('Illegal constructor');
    this.#realm = arguments[1];
    refuseToClone(this);
  }

  request(name, callback) {
    if (typeof this !== 'object' || this === null || !(#realm in this)) return illegal(false);
    const realm = this.#realm;
    const { request } = realm.addon;
    const count = arguments.length;
    if (count < 2) return count === 1 ? request(name) : request();
    const given = count === 2 ? callback : arguments[2];
    // What is no function is for the addon to refuse.
    const caller = typeof given === 'function' ? new Caller(given) : null;
    const called = caller === null ? given : caller.call;
    const promise = count === 2 ? request(name, called) : request(name, callback, called);
    if (realm.wanted[0] !== 0) realm.queue();
    else if (caller !== null) caller.begin();
    return promise;
  }

  query() {
    if (typeof this !== 'object' || this === null || !(#realm in this)) return illegal(true);
    const promise = this.#realm.addon.query();
    this.#realm.queue();
    return promise;
  }
}
defineInterface(LockManager, ['request', 'query']);

/** The instance that answers where there is no lock manager. */
let last;

const illegal = (isQuery) => last.illegalInvocation(isQuery);

/** Where the addon is that was built last. */
function library() {
  if (process.env.NAVLOCK_ONE_FACE) return process.env.NAVLOCK_ONE_FACE;
  const metadata = execFileSync('cargo', ['metadata', '--format-version', '1', '--no-deps'], { cwd: __dirname, encoding: 'utf8', maxBuffer: 1 << 28 });
  const file = { darwin: 'libnavlock_one_face.dylib', linux: 'libnavlock_one_face.so' }[process.platform];
  return path.join(JSON.parse(metadata).target_directory, 'release', file);
}

/** An instance of the addon, not open yet. */
function load() {
  const instance = { exports: {} };
  process.dlopen(instance, library());
  return instance.exports;
}

/** A lock manager of a bucket of this process, or of one that nobody else has. */
function openLockManager(bucket, isPrivate = false) {
  last = load();
  const realm = new Realm(last, bucket, isPrivate);
  return { addon: last, locks: new LockManager(key, realm) };
}

module.exports = { Lock, LockManager, load, openLockManager };
