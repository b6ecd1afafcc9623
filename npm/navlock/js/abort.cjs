'use strict';
// Abort algorithms: <https://dom.spec.whatwg.org/#abortsignal-abort-algorithms>.
//
// Only Deno has functions to add one. DEVIATION: elsewhere we add a listener, which runs in the turn of the abort. If
// the engine has a way, no other listener of the signal can stop ours.

const { TypeError, WeakMap, getOwnPropertySymbols, weakMapGet, weakMapSet } = require('./primordials.cjs');
const { interfaceOf } = require('./signals.cjs');

/** Makes a listener on Node that stopImmediatePropagation() does not stop; elsewhere `null`. */
const UNSTOPPABLE = unstoppable();
const LISTENER_OPTIONS = UNSTOPPABLE ?? { __proto__: null };

/**
 * The option that Node's own `events.addAbortListener` sets. We do not call that function: it looks up methods that
 * programs can replace, and makes two objects at each call that we do not need.
 */
function unstoppable() {
  let options = {};
  try {
    const signal = { aborted: false, addEventListener: (type, listener, given) => (options = given) };
    require('node:events').addAbortListener(signal, () => {});
  } catch {
    return null; // the runtime has no such function, or the function is not Node's
  }
  const [key] = getOwnPropertySymbols(options);
  return key === undefined ? null : { __proto__: null, [key]: options[key] };
}

/**
 * A signal with all its abort algorithms, behind one listener. Whenever a listener is added or removed, runtimes look
 * through all listeners of the signal: with a listener each, many waiters with one signal would take quadratic time.
 */
class AbortSource {
  constructor(signal, itsInterface) {
    this.signal = signal;
    this.interface = itsInterface;
    this.listener = () => this.run();
    /** A signal of our own that depends on the program's signal: listeners of the program cannot stop its abort. */
    this.dependent = null;
    /** The algorithms in the order in which they were added. */
    this.first = null;
    this.last = null;
  }

  get aborted() {
    return this.interface.aborted(this.signal);
  }

  get reason() {
    return this.interface.reason(this.signal);
  }

  listen() {
    const { dependent, interface: { add, addEventListener, any }, listener, signal } = this;
    if (add !== null) {
      add(signal, listener);
      return;
    }
    addEventListener(signal, 'abort', listener, LISTENER_OPTIONS);
    if (UNSTOPPABLE !== null || any === null) return;
    this.dependent = dependent ?? any(signal);
    addEventListener(this.dependent, 'abort', listener, LISTENER_OPTIONS);
  }

  ignore() {
    const { dependent, interface: { remove, removeEventListener }, listener, signal } = this;
    if (remove !== null) {
      remove(signal, listener);
      return;
    }
    try {
      removeEventListener(signal, 'abort', listener);
      if (dependent !== null) removeEventListener(dependent, 'abort', listener);
    } catch {
      // A program has changed the signal. A listener without algorithms does no harm.
    }
  }

  run() {
    // A call from here may find the stack full, before some of the algorithms have run. They run in a task then.
    const { first } = this;
    try {
      // An event that a program dispatches aborts nothing.
      if (first === null || !this.aborted) return;
      const { reason } = this;
      // One at a time, because an algorithm may remove others.
      while (this.first !== null) this.first.signalToAbort(reason);
    } catch {
      first.realm.isBehind = true;
      first.realm.wakeLoop();
    }
  }
}

Object.setPrototypeOf(AbortSource.prototype, null);

/** Sources by signal. A signal keeps its source for as long as it lives, but no listener and no algorithm. */
const sources = new WeakMap();

/** @returns {AbortSource | null} `null` if `value` is no signal */
function abortSourceOf(value) {
  // The interface is asked each time: a WeakMap does not tell a proxy from its target.
  const itsInterface = interfaceOf(value);
  if (itsInterface === null) return null;
  let source = weakMapGet(sources, value);
  if (source === undefined) weakMapSet(sources, value, (source = new AbortSource(value, itsInterface)));
  return source;
}

/** An abort algorithm. It is a base class, so that an algorithm costs no object of its own. */
class AbortAlgorithm {
  constructor() {
    /** @type {AbortSource | null} */
    this.source = null;
    this.before = null;
    this.after = null;
  }

  /**
   * An implementation ends with {@link removeAbortAlgorithm}. If it throws, it is called again.
   *
   * @abstract
   * @param {unknown} reason
   */
  signalToAbort() {}
}
// Members that programs put on Object.prototype must not be taken for ours.
Object.setPrototypeOf(AbortAlgorithm.prototype, null);

/** <https://dom.spec.whatwg.org/#abortsignal-add>: `source` has not aborted. */
function addAbortAlgorithm(source, algorithm) {
  const { last } = source;
  // The listener is added first: if that fails, no algorithm has been linked.
  if (last === null) {
    try {
      source.listen();
    } catch (cause) {
      throw new TypeError('the signal does not let itself be listened to', { cause });
    }
  }
  algorithm.source = source;
  algorithm.before = last;
  if (last === null) source.first = algorithm;
  else last.after = algorithm;
  source.last = algorithm;
}

/** <https://dom.spec.whatwg.org/#abortsignal-remove>: does nothing if the algorithm is not there, or not any more. */
function removeAbortAlgorithm(algorithm) {
  const { source, before, after } = algorithm;
  if (source === null) return;
  if (before === null) source.first = after;
  else before.after = after;
  if (after === null) source.last = before;
  else after.before = before;
  algorithm.source = algorithm.before = algorithm.after = null;
  if (source.first === null) source.ignore();
}

module.exports = { AbortAlgorithm, AbortSource, abortSourceOf, addAbortAlgorithm, removeAbortAlgorithm };
