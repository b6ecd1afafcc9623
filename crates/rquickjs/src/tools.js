// What the adapter needs of the language, taken before scripts of others can change it.
(function () {
  'use strict';

  const { Promise, TypeError } = globalThis;
  const { then } = Promise.prototype;

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

  return {
    TypeError,
    then,

    /** Keeps `value` for as long as `object` lives, where no script finds it. */
    keep(object, value) {
      new Keeper(object, value);
    },
  };
})
