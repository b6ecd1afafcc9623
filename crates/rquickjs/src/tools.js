// What the adapter needs from the language, read before any script can change it.
(function () {
  'use strict';

  const { Promise, TypeError } = globalThis;
  const { then } = Promise.prototype;

  /** If a constructor returns an object, the private fields of the class are added to that object. */
  class Given {
    constructor(object) {
      return object;
    }
  }

  class Attached extends Given {
    #kept;

    constructor(object, kept) {
      super(object);
      this.#kept = kept;
    }
  }

  return {
    TypeError,
    then,

    /** Keeps `value` as long as `object` lives, where no script finds `value`. */
    keep(object, value) {
      new Attached(object, value);
    },
  };
})
