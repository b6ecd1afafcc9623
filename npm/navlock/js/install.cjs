'use strict';
// Where a platform has locks: `navigator.locks`, `LockManager` and `Lock`:
// <https://w3c.github.io/web-locks/#navigator-mixins>. What is put there can be taken back.

const process = require('node:process');

const { Lock } = require('./lock.cjs');
const { LockManager } = require('./lock-manager.cjs');

/**
 * Defines a property by this descriptor.
 *
 * @returns {() => void} makes it what it was
 */
function replace(object, name, descriptor) {
  const before = Object.getOwnPropertyDescriptor(object, name);
  Object.defineProperty(object, name, { ...descriptor, configurable: true });
  return () => {
    if (before === undefined) delete object[name];
    else Object.defineProperty(object, name, before);
  };
}

/** The interface objects, on a global object. */
function installInterfaces(global) {
  const undo = [['LockManager', LockManager], ['Lock', Lock]].map(
    ([name, value]) => replace(global, name, { value, writable: true, enumerable: false }),
  );
  return () => undo.forEach((step) => step());
}

/**
 * The attribute, as one is defined: an enumerable accessor.
 *
 * @param {object} navigator
 * @param {(of: unknown) => object} locksOf  throws if that is no navigator
 */
function installAttribute(navigator, locksOf) {
  const attribute = {
    get locks() {
      return locksOf(this);
    },
  };
  const { get } = Object.getOwnPropertyDescriptor(attribute, 'locks');
  return replace(holderOf(navigator), 'locks', { get, set: undefined, enumerable: true });
}

/**
 * Where the attribute belongs: on the interface, unless the navigator is a plain object (Bun; of any
 * realm, whose prototype is that of all objects), or was given locks of its own.
 */
function holderOf(navigator) {
  const prototype = Object.getPrototypeOf(navigator);
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  return isPlain || Object.hasOwn(navigator, 'locks') ? navigator : prototype;
}

/**
 * Node 20 has none. That of later versions says what runs, and code that finds a navigator reads it
 * unasked.
 */
function installNavigator() {
  class Navigator {
    get userAgent() {
      return `Node.js/${process.versions.node.split('.')[0]}`;
    }
  }
  Object.defineProperty(Navigator.prototype, 'userAgent', { enumerable: true });
  Object.defineProperty(Navigator.prototype, Symbol.toStringTag, { value: 'Navigator', configurable: true });
  const navigator = new Navigator();
  const undo = [
    replace(globalThis, 'Navigator', { value: Navigator, writable: true, enumerable: false }),
    replace(globalThis, 'navigator', { get: () => navigator, set: undefined, enumerable: true }),
  ];
  return () => undo.forEach((step) => step());
}

module.exports = { installAttribute, installInterfaces, installNavigator, replace };
