'use strict';
// What this module needs of the language, as it was when the module was loaded: code that replaces
// members of prototypes later must not be able to break locks, or to look into them.

const { apply } = Reflect;

/** A method as a function whose first argument is `this`. */
const uncurryThis = Function.prototype.bind.bind(Function.prototype.call);

/** The getter of an attribute, as a function of its object. */
const getter = (prototype, name) => uncurryThis(Object.getOwnPropertyDescriptor(prototype, name).get);

const { setImmediate } = require('node:timers');

module.exports = {
  AbortController,
  AbortSignal,
  DOMException,
  Map,
  Promise,
  Set,
  TypeError,
  WeakMap,
  apply,
  setImmediate,
  uncurryThis,
  arraySort: uncurryThis(Array.prototype.sort),
  isWellFormed: uncurryThis(String.prototype.isWellFormed),
  mapGet: uncurryThis(Map.prototype.get),
  mapSet: uncurryThis(Map.prototype.set),
  weakMapGet: uncurryThis(WeakMap.prototype.get),
  weakMapSet: uncurryThis(WeakMap.prototype.set),
  controllerAbort: uncurryThis(AbortController.prototype.abort),
  controllerSignal: getter(AbortController.prototype, 'signal'),
  signalAborted: getter(AbortSignal.prototype, 'aborted'),
  signalReason: getter(AbortSignal.prototype, 'reason'),
  addEventListener: uncurryThis(EventTarget.prototype.addEventListener),
  removeEventListener: uncurryThis(EventTarget.prototype.removeEventListener),
};
