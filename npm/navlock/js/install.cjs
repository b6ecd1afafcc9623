'use strict';
// Installs `navigator.locks`, `LockManager` and `Lock` where a platform has them:
// <https://w3c.github.io/web-locks/#navigator-mixins>. Each function returns another one that undoes it.

const process = require('node:process');

const { Lock } = require('./lock.cjs');
const { LockManager } = require('./lock-manager.cjs');

/**
 * Defines a property by this descriptor.
 *
 * @returns {() => void} restores what was there before
 */
function replace(object, name, descriptor) {
  const before = Object.getOwnPropertyDescriptor(object, name);
  Object.defineProperty(object, name, { ...descriptor, configurable: true });
  return () => {
    if (before === undefined) delete object[name];
    else Object.defineProperty(object, name, before);
  };
}

/** Installs the interface objects on a global object. */
function installInterfaces(global) {
  const undo = [['LockManager', LockManager], ['Lock', Lock]].map(
    ([name, value]) => replace(global, name, { value, writable: true, enumerable: false }),
  );
  return () => undo.forEach((step) => step());
}

/**
 * Installs the attribute `locks` in the form that Web IDL gives to attributes: an enumerable accessor.
 *
 * @param {object} navigator
 * @param {(of: unknown) => object} locksOf  throws if `of` is no navigator
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
 * The object to which the attribute belongs: the prototype of the navigator's interface, or the navigator itself if
 * it is a plain object, as on Bun, or has a property `locks` of its own. In any realm, the prototype of a plain
 * object is that of all objects, which has no prototype.
 */
function holderOf(navigator) {
  const prototype = Object.getPrototypeOf(navigator);
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  return isPlain || Object.hasOwn(navigator, 'locks') ? navigator : prototype;
}

/**
 * Installs a navigator on Node 20, which has none. As in later versions of Node, its `userAgent` names the runtime:
 * code that finds a navigator reads this attribute without checking for it.
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
