'use strict';
// Makes `navigator.locks`, `LockManager` and `Lock` ours, where the platform has them:
// <https://w3c.github.io/web-locks/#navigator-mixins>.

const { Lock, LockManager, locks } = require('./index.cjs');
const { TypeError } = require('./primordials.cjs');

for (const [name, value] of [['LockManager', LockManager], ['Lock', Lock]]) {
  Object.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}

const navigator = globalThis.navigator ?? createNavigator();
const attribute = {
  get locks() {
    if (this !== navigator) throw new TypeError('Illegal invocation: this is not the navigator');
    return locks;
  },
};
// As an attribute is defined: an enumerable, configurable accessor.
Object.defineProperty(holderOf(navigator), 'locks', Object.getOwnPropertyDescriptor(attribute, 'locks'));

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
function createNavigator() {
  class Navigator {
    get userAgent() {
      return `Node.js/${process.versions.node.split('.')[0]}`;
    }
  }
  Object.defineProperty(Navigator.prototype, 'userAgent', { enumerable: true });
  Object.defineProperty(Navigator.prototype, Symbol.toStringTag, { value: 'Navigator', configurable: true });
  const navigator = new Navigator();
  Object.defineProperty(globalThis, 'Navigator', { value: Navigator, writable: true, enumerable: false, configurable: true });
  Object.defineProperty(globalThis, 'navigator', { get: () => navigator, enumerable: true, configurable: true });
  return navigator;
}
