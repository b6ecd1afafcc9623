'use strict';
// Conversions of arguments by Web IDL: <https://webidl.spec.whatwg.org/#js-type-mapping>.

const { Promise, TypeError, getPrototypeOf, hasOwn, isPromise, promisePrototype } = require('./primordials.cjs');
const { deferred } = require('./deferred.cjs');
const { abortSourceOf } = require('./abort.cjs');

/** <https://webidl.spec.whatwg.org/#a-promise-rejected-with>, of this realm. */
function rejectedWith(reason) {
  return new Promise((_, reject) => reject(reason));
}

/**
 * <https://webidl.spec.whatwg.org/#js-promise>, of what a callback has returned, for an `await`.
 *
 * FAST: `await` adopts most values in the same way, with the functions that the language had from the start, so these
 * values are returned as they are. The exception is a promise whose `then` may not be that of all promises: `await`
 * would not call this `then`.
 */
function toPromise(value) {
  if (typeof value !== 'object' || value === null) return value;
  // First: a proxy is no promise, and must not be asked for anything but its `then`.
  if (!isPromise(value) || (getPrototypeOf(value) === promisePrototype && !hasOwn(value, 'then'))) return value;
  const { promise, resolve } = deferred();
  resolve(value);
  return promise;
}

/** <https://webidl.spec.whatwg.org/#js-DOMString>. Throws what the conversion throws. */
function toDOMString(value) {
  return `${value}`;
}

/** <https://webidl.spec.whatwg.org/#js-callback-function> */
function toCallback(value, what) {
  if (typeof value !== 'function') throw new TypeError(`${what} is not a function`);
  return value;
}

/** <https://webidl.spec.whatwg.org/#js-interface>: only a platform object counts, and no object that looks like one. */
function toAbortSource(value, what) {
  const source = abortSourceOf(value);
  if (source === null) throw new TypeError(`${what} is not an AbortSignal`);
  return source;
}

/**
 * The dictionary LockOptions, converted: <https://w3c.github.io/web-locks/#dictdef-lockoptions>.
 *
 * @typedef {object} LockOptions
 * @property {boolean} ifAvailable
 * @property {boolean} isShared  the mode
 * @property {import('./abort.cjs').AbortSource | null} signal
 * @property {boolean} steal
 * @property {string} why  what the lock is for; empty if that is not said. The standard has no such member.
 */

/** @type {LockOptions} */
const DEFAULTS = { ifAvailable: false, isShared: false, signal: null, steal: false, why: '' };

/** @returns {LockOptions} */
function toLockOptions(options) {
  // https://webidl.spec.whatwg.org/#js-dictionary
  // 1. Only objects, undefined and null are dictionaries.
  if (options === undefined || options === null) return DEFAULTS;
  if (typeof options !== 'object' && typeof options !== 'function') {
    throw new TypeError('LockManager.request: the options are not an object');
  }
  // 4. Members in the order of the alphabet. Each is read once, and converted before the next.
  const ifAvailable = !!options.ifAvailable;
  const { mode } = options;
  const isShared = mode !== undefined && toLockMode(mode) === 'shared';
  const { signal } = options;
  const converted = signal === undefined ? null : toAbortSource(signal, 'LockManager.request: the option signal');
  const steal = !!options.steal;
  // DEVIATION: the standard's dictionary has no such member, so nobody else reads it. Whatever is no text is ignored.
  const { why } = options;
  return { ifAvailable, isShared, signal: converted, steal, why: typeof why === 'string' ? why : '' };
}

/** <https://webidl.spec.whatwg.org/#js-enumeration> */
function toLockMode(value) {
  const mode = toDOMString(value);
  if (mode !== 'shared' && mode !== 'exclusive') {
    throw new TypeError(`LockManager.request: the option mode is ${JSON.stringify(mode)}, not "shared" or "exclusive"`);
  }
  return mode;
}

module.exports = { rejectedWith, toAbortSource, toCallback, toDOMString, toLockOptions, toPromise };
