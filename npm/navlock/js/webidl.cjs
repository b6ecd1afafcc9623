'use strict';
// What Web IDL makes of arguments: <https://webidl.spec.whatwg.org/#js-type-mapping>.

const { Promise, TypeError, signalAborted } = require('./primordials.cjs');

/** Of a request, as the addon takes them. */
const SHARED = 1;
const IF_AVAILABLE = 2;
const STEAL = 4;

/** <https://webidl.spec.whatwg.org/#a-promise-rejected-with>, of this realm. */
function rejectedWith(reason) {
  return new Promise((_, reject) => reject(reason));
}

/** <https://webidl.spec.whatwg.org/#js-DOMString>: throws what the conversion throws. */
function toDOMString(value) {
  return `${value}`;
}

/** <https://webidl.spec.whatwg.org/#js-callback-function> */
function toCallback(value, what) {
  if (typeof value !== 'function') throw new TypeError(`${what} is not a function`);
  return value;
}

/** <https://webidl.spec.whatwg.org/#implements>: a platform object, not what looks like one. */
function toAbortSignal(value, what) {
  try {
    signalAborted(value);
  } catch {
    throw new TypeError(`${what} is not an AbortSignal`);
  }
  return value;
}

/**
 * The dictionary LockOptions: <https://w3c.github.io/web-locks/#dictdef-lockoptions>.
 *
 * An object per request would cost more than the conversion, hence a number for the members that
 * are yes or no. {@link signalOption} has the other one.
 *
 * @returns {number} flags
 */
function toLockOptions(options) {
  signalOption = null;
  // https://webidl.spec.whatwg.org/#js-dictionary
  // 1. Only objects, undefined and null are dictionaries.
  if (options === undefined || options === null) return 0;
  if (typeof options !== 'object' && typeof options !== 'function') {
    throw new TypeError('LockManager.request: the options are not an object');
  }
  // 4. Members in the order of the alphabet. Each is read once, and converted before the next.
  let flags = 0;
  if (options.ifAvailable) flags |= IF_AVAILABLE;
  const { mode } = options;
  if (mode !== undefined && toLockMode(mode) === 'shared') flags |= SHARED;
  const { signal } = options;
  const converted = signal === undefined ? null : toAbortSignal(signal, 'LockManager.request: the option signal');
  if (options.steal) flags |= STEAL;
  // Last: what is read above is code of others, which may make requests of its own.
  signalOption = converted;
  return flags;
}

/** The `signal` of the options that were converted last; `null` if they had none. */
let signalOption = null;

/** <https://webidl.spec.whatwg.org/#js-enumeration> */
function toLockMode(value) {
  const mode = toDOMString(value);
  if (mode !== 'shared' && mode !== 'exclusive') {
    throw new TypeError(`LockManager.request: the option mode is ${JSON.stringify(mode)}, not "shared" or "exclusive"`);
  }
  return mode;
}

module.exports = {
  SHARED,
  IF_AVAILABLE,
  STEAL,
  rejectedWith,
  toCallback,
  toDOMString,
  toLockOptions,
  takeSignal: () => signalOption,
};
