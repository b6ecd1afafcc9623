// What the adapter needs of the language, taken before scripts of others can change it.
(function () {
  'use strict';

  const { Promise, TypeError } = globalThis;
  const { apply, defineProperty } = Reflect;
  const { then } = Promise.prototype;
  const { fromCharCode, prototype: { charCodeAt } } = String;

  /** A constructor that returns an object has the private fields of its class added to that object. */
  class Given {
    constructor(object) {
      return object;
    }
  }

  class Keeper extends Given {
    #kept;

    constructor(object, kept) {
      super(object);
      this.#kept = kept;
    }
  }

  /** Has `then` make promises of the language's own kind, whatever `Promise.prototype.constructor` is. */
  const unspecific = { __proto__: null, value: undefined };

  return {
    TypeError,
    fromCharCode,

    /** Keeps `value` for as long as `object` lives, where no script finds it. */
    keep(object, value) {
      new Keeper(object, value);
    },

    /** Converts a value to a promise, and calls `settle(isFulfilled, outcome)` when that is settled. */
    react(value, settle) {
      let resolve;
      const promise = new Promise((given) => {
        resolve = given;
      });
      defineProperty(promise, 'constructor', unspecific);
      apply(then, promise, [(outcome) => settle(true, outcome), (reason) => settle(false, reason)]);
      resolve(value);
    },

    concatenate: (first, second) => first + second,
    length: (string) => string.length,
    unitAt: (string, index) => apply(charCodeAt, string, [index]),
  };
})
