'use strict';
// A map with weak values: an entry is gone once nothing else refers to its value.

const { FinalizationRegistry, Map, WeakRef, mapDelete, mapGet, mapSet, registerFinalization, weakRefDeref } = require('./primordials.cjs');

class WeakValues {
  /** @type {Map<string, WeakRef<object>>} */
  #references = new Map();

  #collected = new FinalizationRegistry((key) => {
    // The key may have a later value by now.
    if (this.get(key) === undefined) mapDelete(this.#references, key);
  });

  get(key) {
    const reference = mapGet(this.#references, key);
    return reference === undefined ? undefined : weakRefDeref(reference);
  }

  set(key, value) {
    if (this.get(key) === value) return;
    mapSet(this.#references, key, new WeakRef(value));
    registerFinalization(this.#collected, value, key);
  }
}

module.exports = { WeakValues };
