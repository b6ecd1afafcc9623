'use strict';
// The interface LockManager: <https://w3c.github.io/web-locks/#api-lock-manager>.

const { DOMException, TypeError, refuseToClone } = require('./primordials.cjs');
const { defineInterface } = require('./interface.cjs');
const { queryLocks } = require('./queries.cjs');
const { requestLock } = require('./requests.cjs');
const { rejectedWith, toCallback, toDOMString, toLockOptions } = require('./webidl.cjs');

/** Only code that has this may call the constructor. */
const key = {};

let obtain;
let reopen;

class LockManager {
  /** @type {import('./requests.cjs').OpenManager | null} once it is open */
  #manager = null;

  /** Opens the lock manager in the addon. It is called when the lock manager is first needed. */
  #open;

  constructor() {
    if (arguments[0] !== key) throw new TypeError('Illegal constructor');
    this.#open = arguments[1];
    refuseToClone(this);
  }

  /** <https://w3c.github.io/web-locks/#dom-lockmanager-request>, both overloads. */
  request(name, callback) {
    // https://webidl.spec.whatwg.org/#js-operations: every error is a rejection.
    try {
      if (!(#manager in this)) throw new TypeError('Illegal invocation: this is not a LockManager');
      const count = arguments.length;
      if (count < 2) throw new TypeError(`LockManager.request: 2 arguments are needed, ${count} given`);

      // 1. Conversions, from left to right.
      const resource = toDOMString(name);
      const options = toLockOptions(count === 2 ? undefined : callback);
      const granted = toCallback(count === 2 ? callback : arguments[2], 'LockManager.request: the callback');

      // 2–4. There are no documents here: what remains is whether there is a lock manager.
      const manager = this.#manager ?? obtain(this);
      // 5–9.
      check(resource, options);
      // 10–12.
      return requestLock(manager, resource, options, granted).promise;
    } catch (error) {
      return rejectedWith(error);
    }
  }

  /** <https://w3c.github.io/web-locks/#dom-lockmanager-query> */
  query() {
    try {
      if (!(#manager in this)) throw new TypeError('Illegal invocation: this is not a LockManager');
      // 1–3.
      const manager = this.#manager ?? obtain(this);
      // 4–6.
      return queryLocks(manager);
    } catch (error) {
      return rejectedWith(error);
    }
  }

  static {
    obtain = (locks) => {
      if (!(#manager in locks)) throw new TypeError('this is not a LockManager');
      return (locks.#manager ??= locks.#open());
    };
    reopen = (locks, open) => {
      const manager = locks.#manager;
      locks.#manager = null;
      locks.#open = open;
      return manager;
    };
  }
}
defineInterface(LockManager, ['request', 'query']);

/** Steps 5 to 9 of `request()`, in their order. The promise is rejected with what they throw. */
function check(name, { ifAvailable, isShared, signal, steal }) {
  // 5. By index, because programs can replace methods of strings.
  if (name[0] === '-') throw notSupported('names that begin with "-" are reserved');
  // 6.
  if (steal && ifAvailable) throw notSupported('steal and ifAvailable exclude each other');
  // 7.
  if (steal && isShared) throw notSupported('only exclusive locks can be stolen');
  if (signal !== null) {
    // 8.
    if (steal || ifAvailable) throw notSupported('a signal has no use with steal or ifAvailable, which do not wait');
    // 9.
    if (signal.aborted) throw signal.reason;
  }
}

/** Ends all requests and locks of a lock manager whose agent is over. From then on it refuses requests. */
function endAgent(locks, why) {
  const manager = reopen(locks, () => {
    throw new DOMException(why, 'InvalidStateError');
  });
  manager?.realm.terminate((other) => other === manager);
}

function notSupported(why) {
  return new DOMException(`LockManager.request: ${why}`, 'NotSupportedError');
}

module.exports = {
  LockManager,
  check,
  /** @param {() => import('./requests.cjs').OpenManager} open  throws the reason if there is no lock manager */
  createLockManager: (open) => new LockManager(key, open),
  endAgent,
  /** Opens a lock manager, unless it is open. Throws if that fails, or for an object that is no lock manager. */
  obtainLockManager: obtain,
  /**
   * Makes a lock manager forget what it has opened. When it is next needed, it opens what `open` returns.
   *
   * @returns {import('./requests.cjs').OpenManager | null} what the lock manager had opened until now
   */
  reopenLockManager: reopen,
};
