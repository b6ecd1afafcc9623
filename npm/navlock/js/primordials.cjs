'use strict';
// The built-in functions that this module needs, as they were when the module was loaded. Code that replaces members of
// prototypes later can neither break locks nor look into them.

const { apply, defineProperty: reflectDefine } = Reflect;

/** Turns a method into a function whose first argument is `this`. */
const uncurryThis = Function.prototype.bind.bind(Function.prototype.call);

const { performance } = require('node:perf_hooks');
const { clearTimeout, setImmediate, setTimeout } = require('node:timers');
const { transferableAbortController, types } = require('node:util');

const { markAsUncloneable } = require('node:worker_threads');

const { defineProperty, getOwnPropertyDescriptor, getOwnPropertySymbols, getPrototypeOf, setPrototypeOf } = Object;

const { Error } = globalThis;

/** The global class. Where a test environment has none, that of the runtime. */
const AbortController = globalThis.AbortController ?? transferableAbortController().constructor;
const DOMException = globalThis.DOMException ?? reasonOf(new AbortController()).constructor;

function reasonOf(controller) {
  controller.abort();
  return controller.signal.reason;
}

/** The accessor of `signal`. `undefined` in environments in which each controller has a property of its own. */
const signalOf = getOwnPropertyDescriptor(AbortController.prototype, 'signal')?.get;

/**
 * Makes structured cloning refuse a platform object of ours. Otherwise the clone would be an empty object. On two
 * runtimes this does nothing: Node 20 has no such function, and Deno's adds a property that everybody sees.
 */
const refuseToClone = canRefuse() ? markAsUncloneable : () => {};

function canRefuse() {
  if (markAsUncloneable === undefined) return false;
  const object = {};
  markAsUncloneable(object);
  return Reflect.ownKeys(object).length === 0;
}

const arrayFrom = Array.from;

/**
 * An array whose elements a function makes from their indices. The elements are defined and not assigned: a program may
 * have put a setter at `Array.prototype[0]`.
 */
function arrayOf(length, make) {
  return apply(arrayFrom, Array, [{ __proto__: null, length }, (_, index) => make(index)]);
}

/** An array for ourselves and the addon. It has no prototype, so that an assignment calls no setter of a program. */
function ownArray() {
  return setPrototypeOf([], null);
}

const entriesOf = uncurryThis(Map.prototype.entries);
const nextOf = uncurryThis(getPrototypeOf(new Map().entries()).next);

module.exports = {
  AbortController,
  DOMException,
  Error,
  FinalizationRegistry,
  Map,
  Promise,
  RangeError,
  Set,
  TypeError,
  WeakMap,
  WeakRef,
  apply,
  arrayOf,
  clearTimeout,
  defineProperty,
  getOwnPropertyDescriptor,
  getOwnPropertySymbols,
  getPrototypeOf,
  isPromise: types.isPromise,
  isProxy: types.isProxy,
  /** Milliseconds on a clock that nobody sets. */
  now: performance.now.bind(performance),
  hasOwn: Object.hasOwn,
  jsonParse: JSON.parse,
  ownArray,
  /** Returns whether it could. */
  reflectDefine,
  promisePrototype: Promise.prototype,
  refuseToClone,
  setImmediate,
  setPrototypeOf,
  setTimeout,
  uncurryThis,
  arrayFilter: uncurryThis(Array.prototype.filter),
  arraySort: uncurryThis(Array.prototype.sort),
  isWellFormed: uncurryThis(String.prototype.isWellFormed),
  mapDelete: uncurryThis(Map.prototype.delete),
  mapGet: uncurryThis(Map.prototype.get),
  mapSet: uncurryThis(Map.prototype.set),
  /** The key and the value that were put in first, or `undefined`. */
  mapFirst: (map) => nextOf(entriesOf(map)).value,
  setAdd: uncurryThis(Set.prototype.add),
  setDelete: uncurryThis(Set.prototype.delete),
  registerFinalization: uncurryThis(FinalizationRegistry.prototype.register),
  unregisterFinalization: uncurryThis(FinalizationRegistry.prototype.unregister),
  weakRefDeref: uncurryThis(WeakRef.prototype.deref),
  weakMapGet: uncurryThis(WeakMap.prototype.get),
  weakMapSet: uncurryThis(WeakMap.prototype.set),
  controllerAbort: uncurryThis(AbortController.prototype.abort),
  controllerSignal: signalOf === undefined ? (controller) => controller.signal : uncurryThis(signalOf),
  functionToString: uncurryThis(Function.prototype.toString),
  stringIncludes: uncurryThis(String.prototype.includes),
};
