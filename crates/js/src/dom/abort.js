// AbortController and AbortSignal: https://dom.spec.whatwg.org/#aborting-ongoing-activities

function makeAbort(base) {
  const signals = slots();
  const controllers = slots();

  function makeSignal() {
    const algorithms = { __proto__: null, algorithm: undefined, previous: null, next: null };
    algorithms.previous = algorithms.next = algorithms;
    const state = {
      __proto__: null,
      signal: undefined,
      /** Undefined until the signal has aborted. Afterwards it is never undefined. */
      reason: undefined,
      /** The sentinel of a ring, so that an algorithm can be taken out of the middle in constant time. */
      algorithms,
      /** How many algorithms and listeners of `abort` there are. */
      observers: 0,
      /** Of a dependent signal: weak references to its sources, and its entry in their lists of dependents. */
      sources: null,
      entry: null,
      /** Entries of the signals that depend on this one, and how many there may be before the dead go. */
      dependents: null,
      sweepAt: 16,
      /** The value of `onabort`, and the listener that calls it. */
      handler: null,
      listener: null,
    };
    const watched = (type, change) => {
      if (type === 'abort') observe(state, change);
    };
    state.signal = signals.give(base.make(AbortSignal, watched), state);
    return state;
  }

  // ---- A source holds its dependents weakly, except while somebody would see them abort.

  const toWeak = (object) => (dereference ? new WeakRef(object) : object);
  const fromWeak = (reference) => (dereference ? apply(dereference, reference, []) : reference);

  function observe(state, change) {
    state.observers += change;
    keep(state);
  }

  function keep({ entry, observers, signal, reason }) {
    if (entry) entry.kept = reason === undefined && (observers > 0 || !base.watches) ? signal : null;
  }

  /** Adds `entry` to the dependents of `source`, and takes out those that no longer exist. */
  function appendDependent(source, entry) {
    if (source.dependents === null) source.dependents = list();
    const { dependents } = source;
    if (dependents.length >= source.sweepAt) {
      let count = 0;
      for (let index = 0; index < dependents.length; index++) {
        const signal = fromWeak(dependents[index].reference);
        if (signal !== undefined && signals.of(signal).reason === undefined) dependents[count++] = dependents[index];
      }
      truncate(dependents, count);
      source.sweepAt = count < 8 ? 16 : 2 * count;
    }
    append(dependents, entry);
  }

  // ---- Algorithms

  // https://dom.spec.whatwg.org/#abortsignal-add
  function add(signal, algorithm) {
    const state = signals.of(signal);
    if (state.reason !== undefined) return undefined;
    const { algorithms } = state;
    const node = { __proto__: null, algorithm, previous: algorithms.previous, next: algorithms };
    algorithms.previous = algorithms.previous.next = node;
    observe(state, 1);
    return node;
  }

  // https://dom.spec.whatwg.org/#abortsignal-remove
  function remove(signal, node) {
    if (node === undefined || node.next === null) return;
    node.previous.next = node.next;
    node.next.previous = node.previous;
    node.previous = node.next = null;
    observe(signals.of(signal), -1);
  }

  // https://dom.spec.whatwg.org/#abortsignal-signal-abort
  function signalAbort(state, reason) {
    if (state.reason !== undefined) return;
    state.reason = reason === undefined ? new DOMException('the signal was aborted without a reason', 'AbortError') : reason;
    const affected = list();
    const { dependents } = state;
    state.dependents = null;
    for (let index = 0; dependents !== null && index < dependents.length; index++) {
      const signal = fromWeak(dependents[index].reference);
      if (signal === undefined) continue;
      const dependent = signals.of(signal);
      if (dependent.reason !== undefined) continue;
      dependent.reason = state.reason;
      keep(dependent); // no more: `affected` does
      append(affected, dependent);
    }
    runAbortSteps(state);
    for (let index = 0; index < affected.length; index++) runAbortSteps(affected[index]);
  }

  // https://dom.spec.whatwg.org/#run-the-abort-steps
  function runAbortSteps({ signal, algorithms }) {
    // No algorithm is added after the abort. The ring changes only where an algorithm removes others.
    for (let node = algorithms.next; node !== algorithms; node = algorithms.next) {
      remove(signal, node);
      try {
        apply(node.algorithm, undefined, []);
      } catch (error) {
        tell(error);
      }
    }
    base.fireAbort(signal);
  }

  // https://dom.spec.whatwg.org/#create-a-dependent-abort-signal
  function makeDependent(sources) {
    const result = makeSignal();
    for (let index = 0; index < sources.length; index++) {
      const { reason } = sources[index];
      if (reason === undefined) continue;
      result.reason = reason;
      return result;
    }
    result.sources = list();
    result.entry = { __proto__: null, reference: toWeak(result.signal), kept: null };
    keep(result);
    for (let index = 0; index < sources.length; index++) {
      const source = sources[index];
      if (source.sources === null) {
        depend(result, source);
        continue;
      }
      for (let inner = 0; inner < source.sources.length; inner++) {
        const signal = fromWeak(source.sources[inner]);
        if (signal !== undefined) depend(result, signals.of(signal));
      }
    }
    return result;
  }

  function depend(result, source) {
    const { dependents } = source;
    // If the entry is there already it is the last one, for no other was added meanwhile.
    if (dependents !== null && dependents.length > 0 && dependents[dependents.length - 1] === result.entry) return;
    appendDependent(source, result.entry);
    append(result.sources, toWeak(source.signal));
  }

  // ---- Interfaces

  class AbortSignal extends base.EventTarget {
    constructor() {
      throw new TypeError('Illegal constructor');
    }

    static abort(reason = undefined) {
      const state = makeSignal();
      state.reason = reason === undefined ? new DOMException('the signal was aborted without a reason', 'AbortError') : reason;
      return state.signal;
    }

    static timeout(milliseconds) {
      need(1, arguments.length, 'AbortSignal.timeout');
      const time = trunc(+milliseconds);
      if (!isFinite(time) || time < 0 || time > MAX_SAFE_INTEGER) {
        throw new TypeError('the time of AbortSignal.timeout must be a number of milliseconds from 0 to 2^53 - 1');
      }
      const state = makeSignal();
      setTimeout(() => signalAbort(state, new DOMException('the time of the signal is over', 'TimeoutError')), time);
      return state.signal;
    }

    static any(signals) {
      need(1, arguments.length, 'AbortSignal.any');
      return makeDependent(sequence(signals)).signal;
    }

    get aborted() { return signals.on(this).reason !== undefined; }
    get reason() { return signals.on(this).reason; }

    throwIfAborted() {
      const { reason } = signals.on(this);
      if (reason !== undefined) throw reason;
    }

    // https://html.spec.whatwg.org/#event-handler-idl-attributes
    get onabort() { return signals.on(this).handler; }
    set onabort(value) {
      const state = signals.on(this);
      state.handler = isObject(value) ? value : null;
      if (state.handler === null) {
        if (state.listener !== null) base.unlisten(state.signal, state.listener);
        state.listener = null;
      } else if (state.listener === null) {
        state.listener = (event) => {
          if (isCallable(state.handler) && apply(state.handler, state.signal, [event]) === false) base.cancel(event);
        };
        base.listen(state.signal, state.listener);
      }
    }
  }
  if (!setTimeout) delete AbortSignal.timeout;
  asInterface(AbortSignal, 'AbortSignal');

  // https://webidl.spec.whatwg.org/#create-sequence-from-iterable
  function sequence(value) {
    const method = isObject(value) ? value[ITERATOR] : undefined;
    if (!isCallable(method)) throw new TypeError('the signals of AbortSignal.any must be iterable');
    const iterator = apply(method, value, []);
    if (!isObject(iterator)) throw new TypeError('the iterator of the signals of AbortSignal.any is no object');
    const { next } = iterator;
    const found = list();
    for (;;) {
      const result = apply(next, iterator, []);
      if (!isObject(result)) throw new TypeError('an iterator must give objects');
      if (result.done) return found;
      const state = signals.of(result.value);
      if (state === undefined) throw new TypeError('the signals of AbortSignal.any must be AbortSignals');
      append(found, state);
    }
  }

  class AbortController {
    constructor() {
      controllers.give(this, makeSignal());
    }

    get signal() { return controllers.on(this).signal; }

    abort(reason = undefined) {
      signalAbort(controllers.on(this), reason);
    }
  }
  asInterface(AbortController, 'AbortController');

  return {
    isSignal: (value) => signals.of(value) !== undefined,
    aborted: (signal) => signals.of(signal).reason !== undefined,
    reason: (signal) => signals.of(signal).reason,
    add,
    remove,
  };
}

/** The same hooks, for an AbortSignal that `global` has already. */
function adoptAbort({ prototype }) {
  const { addEventListener, removeEventListener } = prototype;
  const aborted = getter(prototype, 'aborted');
  const reason = getter(prototype, 'reason');
  // A getter of a platform object throws when it is called on anything else, and that decides. A class of a script
  // may have no such getter: there the prototype decides.
  const decides = throws(() => aborted({}));
  return {
    isSignal(value) {
      if (!isObject(value)) return false;
      try {
        return typeof aborted(value) === 'boolean' && (decides || apply(isPrototypeOf, prototype, [value]));
      } catch {
        return false;
      }
    },
    aborted,
    reason(signal) {
      const value = reason(signal);
      return value === undefined ? new DOMException('the signal was aborted without a reason', 'AbortError') : value;
    },
    add(signal, algorithm) {
      if (aborted(signal)) return undefined;
      const listener = () => apply(algorithm, undefined, []);
      apply(addEventListener, signal, ['abort', listener, { __proto__: null, once: true }]);
      return listener;
    },
    remove(signal, listener) {
      if (listener !== undefined) apply(removeEventListener, signal, ['abort', listener]);
    },
  };
}

/** Reads `name` as objects of `prototype` have it now. */
function getter(prototype, name) {
  for (let object = prototype; object !== null; object = getPrototypeOf(object)) {
    const get = getOwnPropertyDescriptor(object, name)?.get;
    if (get) return (value) => apply(get, value, []);
  }
  return (value) => value[name];
}

function throws(call) {
  try {
    call();
    return false;
  } catch {
    return true;
  }
}
