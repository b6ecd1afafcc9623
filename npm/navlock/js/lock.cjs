'use strict';
// The interface Lock: <https://w3c.github.io/web-locks/#api-lock>.

const { TypeError, refuseToClone } = require('./primordials.cjs');
const { defineInterface, defineShown } = require('./interface.cjs');

/** Only code that has this may call the constructor. */
const key = {};

let requestOf;
let isOver;

class Lock {
  /** The request that became the lock, which knows its name and mode. */
  #request;

  constructor() {
    if (arguments[0] !== key) throw new TypeError('Illegal constructor');
    this.#request = arguments[1];
    refuseToClone(this); // https://html.spec.whatwg.org/multipage/structured-data.html: it is not serializable
  }

  get name() {
    return requestOf(this).name;
  }

  get mode() {
    return requestOf(this).mode;
  }

  static {
    requestOf = (lock) => {
      if (!(#request in lock)) throw new TypeError('Illegal invocation: this is not a Lock');
      return lock.#request;
    };
    isOver = (lock) => #request in lock && !lock.#request.isHeld;
  }
}
defineInterface(Lock, ['name', 'mode']);

// DEVIATION: the specification's prototype has no such property.
defineShown(Lock);

module.exports = {
  Lock,
  /** Whether an object is a `Lock` of this package that is not held any more. */
  isOver,
  createLock: (request) => new Lock(key, request),
  /** The request of a lock; a TypeError for anything else. */
  requestOf,
};
