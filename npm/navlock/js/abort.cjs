'use strict';
// Abort algorithms: <https://dom.spec.whatwg.org/#abortsignal-abort-algorithms>.
//
// No runtime lets us add one. What comes next to it is a listener that runs in the turn of the
// abort and that no other listener of the signal can keep from running.

const {
  AbortController, AbortSignal, WeakMap, apply, addEventListener, removeEventListener, signalAborted, signalReason, weakMapGet, weakMapSet,
} = require('./primordials.cjs');

/** Makes a listener on Node that stopImmediatePropagation() does not stop; elsewhere `null`. */
const UNSTOPPABLE = unstoppable();
const LISTENER_OPTIONS = UNSTOPPABLE ?? { __proto__: null };

/** AbortSignal.any(), which Node 20.0 to 20.2 does not have. */
const { any } = AbortSignal;

/**
 * The option that Node's own `events.addAbortListener` sets. We do not call that one itself: it
 * looks methods up where code can replace them, and makes two objects a time that nobody needs.
 */
function unstoppable() {
  const { addAbortListener } = require('node:events');
  if (typeof addAbortListener !== 'function') return null;
  const { signal } = new AbortController();
  let options = {};
  Object.defineProperty(signal, 'addEventListener', { value: (type, listener, given) => (options = given) });
  addAbortListener(signal, () => {});
  const [key] = Object.getOwnPropertySymbols(options);
  return key === undefined ? null : { __proto__: null, [key]: options[key] };
}

/**
 * All abort algorithms of one signal, behind one listener: runtimes look through all listeners of a
 * signal for each that is added or removed, so that many waiters with one signal took time that
 * grows with their square.
 */
class Watch {
  constructor(signal) {
    this.signal = signal;
    // A signal that depends on theirs and that nobody else has is aborted in the same turn,
    // whatever their listeners do.
    this.target = UNSTOPPABLE === null && any !== undefined ? apply(any, AbortSignal, [[signal]]) : signal;
    this.listener = () => this.run();
    /** The algorithms in the order in which they were added. */
    this.first = null;
    this.last = null;
  }

  run() {
    // An event that a program dispatches aborts nothing.
    if (!signalAborted(this.signal)) return;
    const reason = signalReason(this.signal);
    // One at a time, because what runs may remove others.
    for (let algorithm = this.first; algorithm !== null; algorithm = this.first) {
      removeAbortAlgorithm(algorithm);
      algorithm.signalToAbort(reason);
    }
  }
}

Object.setPrototypeOf(Watch.prototype, null);

/** By signal. A signal keeps its watch as long as it lives, but no listener and no algorithm. */
const watches = new WeakMap();

/** What is to run when a signal aborts: a base, so that it costs no object of its own. */
class AbortAlgorithm {
  constructor() {
    this.watch = null;
    this.before = null;
    this.after = null;
  }

  /** @abstract @param {unknown} reason */
  signalToAbort() {}
}
// What programs put on the prototype of all objects must not get in the way of our members.
Object.setPrototypeOf(AbortAlgorithm.prototype, null);

/** <https://dom.spec.whatwg.org/#abortsignal-add>: `signal` has not aborted. */
function addAbortAlgorithm(signal, algorithm) {
  let watch = weakMapGet(watches, signal);
  if (watch === undefined) weakMapSet(watches, signal, (watch = new Watch(signal)));
  algorithm.watch = watch;
  if (watch.last === null) {
    watch.first = algorithm;
    addEventListener(watch.target, 'abort', watch.listener, LISTENER_OPTIONS);
  } else {
    watch.last.after = algorithm;
    algorithm.before = watch.last;
  }
  watch.last = algorithm;
}

/** <https://dom.spec.whatwg.org/#abortsignal-remove>: nothing if it is not there (any more). */
function removeAbortAlgorithm(algorithm) {
  const { watch, before, after } = algorithm;
  if (watch === null) return;
  if (before === null) watch.first = after;
  else before.after = after;
  if (after === null) watch.last = before;
  else after.before = before;
  algorithm.watch = algorithm.before = algorithm.after = null;
  if (watch.first === null) removeEventListener(watch.target, 'abort', watch.listener);
}

module.exports = { AbortAlgorithm, addAbortAlgorithm, removeAbortAlgorithm };
