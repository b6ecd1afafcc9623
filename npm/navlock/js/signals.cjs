'use strict';
// Which interface AbortSignal a signal has. There can be several: the runtime's, and one for each
// window that a test environment (jsdom, happy-dom) has made, perhaps in the place of the global one.
// Only members of a signal's own interface are called on it.

const { transferableAbortController } = require('node:util');

const {
  WeakMap, functionToString, getOwnPropertyDescriptor, getOwnPropertySymbols, getPrototypeOf, isProxy,
  stringIncludes, uncurryThis, weakMapGet, weakMapSet,
} = require('./primordials.cjs');

/** The members of one interface, as they were when the interface was first seen. */
class SignalInterface {
  /** @param {object} prototype  where members are looked for, and in what it inherits from */
  constructor(prototype) {
    this.aborted = asFunction(find(prototype, 'aborted')?.get);
    this.reason = asFunction(find(prototype, 'reason')?.get);
    this.addEventListener = asFunction(find(prototype, 'addEventListener')?.value);
    this.removeEventListener = asFunction(find(prototype, 'removeEventListener')?.value);
    this.tag = prototype[Symbol.toStringTag];
    /** The standard's own abort algorithms, which Deno has under symbols. */
    this.add = asFunction(findSymbol(prototype, '[[add]]'));
    this.remove = asFunction(findSymbol(prototype, '[[remove]]'));
    /** `AbortSignal.any()` of an engine. That of a test environment is made of listeners, and is not used. */
    const { constructor } = prototype;
    const any = constructor?.any;
    this.any = typeof any === 'function' && stringIncludes(functionToString(any), '[native code]')
      ? (signal) => uncurryThis(any)(constructor, [signal])
      : null;
  }

  /** Whether this is an AbortSignal by its own name, with all members that are needed. */
  get isWhole() {
    return this.tag === 'AbortSignal' && this.aborted !== null && this.reason !== null && this.addEventListener !== null && this.removeEventListener !== null;
  }

  /** Whether `value` is of this interface, or inherits from an object that is. */
  accepts(value) {
    try {
      return typeof this.aborted(value) === 'boolean';
    } catch {
      return false;
    }
  }
}

Object.setPrototypeOf(SignalInterface.prototype, null);

/** A function whose first argument is `this`, or `null`. */
function asFunction(method) {
  return typeof method === 'function' ? uncurryThis(method) : null;
}

/** The property of `object`, its own or inherited. */
function find(object, name) {
  for (let at = object; at !== null && !isProxy(at); at = getPrototypeOf(at)) {
    const descriptor = getOwnPropertyDescriptor(at, name);
    if (descriptor !== undefined) return descriptor;
  }
  return undefined;
}

function findSymbol(object, description) {
  for (const symbol of getOwnPropertySymbols(object)) {
    if (symbol.description === description) return object[symbol];
  }
  return undefined;
}

/** The interfaces that are there from the start, whatever programs do to their members later. */
const own = [];

/** Interfaces by the prototype of their signals. */
const known = new WeakMap();

/** @returns {SignalInterface | null} `null` if this is no interface's prototype, but perhaps a signal itself */
function learn(prototype) {
  const found = new SignalInterface(prototype);
  if (!found.isWhole || found.accepts(prototype)) return null;
  weakMapSet(known, prototype, found);
  return found;
}

// The global interface, and Node's own where a test environment has replaced the global one.
for (const prototype of [globalThis.AbortSignal?.prototype, ofTheRuntime()]) {
  if (typeof prototype !== 'object' || prototype === null || weakMapGet(known, prototype) !== undefined) continue;
  const found = learn(prototype);
  if (found !== null) own.push(found);
}

function ofTheRuntime() {
  try {
    return getPrototypeOf(transferableAbortController().signal);
  } catch {
    return undefined; // Bun has no such function
  }
}

/**
 * <https://webidl.spec.whatwg.org/#implements>: only a platform object counts. An object that looks like one, a proxy
 * of one or an object that inherits from one does not.
 *
 * @returns {SignalInterface | null}
 */
function interfaceOf(value) {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null || isProxy(value)) return null;
  const prototype = getPrototypeOf(value);
  if (prototype !== null && !isProxy(prototype)) {
    const likely = weakMapGet(known, prototype) ?? learn(prototype);
    if (likely !== null && likely.accepts(value)) return likely;
  }
  // A program may have given the signal another prototype, which is no interface's.
  for (let index = 0; index < own.length; index++) {
    if (own[index].accepts(value) && !own[index].accepts(prototype)) return own[index];
  }
  return null;
}

module.exports = { interfaceOf };
