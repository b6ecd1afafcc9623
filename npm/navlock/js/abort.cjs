'use strict';
// Abort algorithms: <https://dom.spec.whatwg.org/#abortsignal-abort-algorithms>.
//
// Only Deno lets us add one. DEVIATION: elsewhere what comes next to it is a listener that runs in the turn of
// the abort and, where the engine has a way, that no other listener of the signal can keep from
// running.

const { TypeError, WeakMap, getOwnPropertySymbols, weakMapGet, weakMapSet } = require('./primordials.cjs');
const { interfaceOf } = require('./signals.cjs');

/** Makes a listener on Node that stopImmediatePropagation() does not stop; elsewhere `null`. */
const UNSTOPPABLE = unstoppable();
const LISTENER_OPTIONS = UNSTOPPABLE ?? { __proto__: null };

/**
 * The option that Node's own `events.addAbortListener` sets. We do not call that one itself: it
 * looks methods up where code can replace them, and makes two objects a time that nobody needs.
 */
function unstoppable() {
  let options = {};
  try {
    const signal = { aborted: false, addEventListener: (type, listener, given) => (options = given) };
    require('node:events').addAbortListener(signal, () => {});
  } catch {
    return null; // there is none, or it is another runtime's
  }
  const [key] = getOwnPropertySymbols(options);
  return key === undefined ? null : { __proto__: null, [key]: options[key] };
}

/**
 * A signal with all its abort algorithms, behind one listener: runtimes look through all listeners
 * of a signal for each that is added or removed, so that many waiters with one signal took time that
 * grows with their square.
 */
class AbortSource {
  constructor(signal, itsInterface) {
    this.signal = signal;
    this.interface = itsInterface;
    this.listener = () => this.run();
    /** A signal that depends on theirs and that nobody else has is aborted whatever their listeners do. */
    this.dependent = null;
    /** The algorithms in the order in which they were added. */
    this.first = null;
    this.last = null;
    /** Among what a realm has left; see realm.cjs. */
    this.next = null;
    this.isLeft = false;
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
      // A signal that a program has spoilt. A listener that has nothing to run does no harm.
    }
  }

  run() {
    // What is called from here may find the stack full, with any number of algorithms undone. They
    // are where they were, and it does them no harm to be run again.
    const { first } = this;
    try {
      // An event that a program dispatches aborts nothing.
      if (first === null || !this.aborted) return;
      const { reason } = this;
      // One at a time, because what runs may remove others.
      while (this.first !== null) this.first.signalToAbort(reason);
    } catch {
      const { realm } = first;
      if (!this.isLeft) {
        this.isLeft = true;
        this.next = realm.left;
        realm.left = this;
      }
      realm.wakeLoop();
    }
  }

  /** What was left is done, in a task. */
  finish() {
    this.isLeft = false;
    this.run();
  }
}

Object.setPrototypeOf(AbortSource.prototype, null);

/** By signal. A signal keeps its source as long as it lives, but no listener and no algorithm. */
const sources = new WeakMap();

/** @returns {AbortSource | null} `null` if that is no signal */
function abortSourceOf(value) {
  // Of its interface each time: a WeakMap does not tell what a proxy stands for.
  const itsInterface = interfaceOf(value);
  if (itsInterface === null) return null;
  let source = weakMapGet(sources, value);
  if (source === undefined) weakMapSet(sources, value, (source = new AbortSource(value, itsInterface)));
  return source;
}

/** What is to run when a signal aborts: a base, so that it costs no object of its own. */
class AbortAlgorithm {
  constructor() {
    /** @type {AbortSource | null} */
    this.source = null;
    this.before = null;
    this.after = null;
  }

  /**
   * Ends in {@link removeAbortAlgorithm}. Where it throws it is called again.
   *
   * @abstract
   * @param {unknown} reason
   */
  signalToAbort() {}
}
// What programs put on the prototype of all objects must not get in the way of our members.
Object.setPrototypeOf(AbortAlgorithm.prototype, null);

/** <https://dom.spec.whatwg.org/#abortsignal-add>: `source` has not aborted. */
function addAbortAlgorithm(source, algorithm) {
  const { last } = source;
  // First: where that fails, nothing was linked.
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

/** <https://dom.spec.whatwg.org/#abortsignal-remove>: nothing if it is not there (any more). */
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
