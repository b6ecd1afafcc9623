// What navlock needs of DOM and WebIDL, for engines that have only the language: DOMException, Event,
// EventTarget, AbortController and AbortSignal.
//
// The value of this script is a function, `(global, host) => hooks`. It defines the interfaces that
// `global` does not have, and returns what `request()` asks of signals. `host` may have
//
//   report(error)              is told what a listener threw; without it that is an unhandled rejection
//   setTimeout(callback, ms)   runs `callback` in a task; without it there is no AbortSignal.timeout
//   now()                      milliseconds, for the time stamps of events
//
// and the hooks are
//
//   isSignal(value)            whether it is an AbortSignal; never throws
//   aborted(signal), reason(signal)
//   add(signal, algorithm)     adds an abort algorithm; its handle, or undefined if the signal has aborted
//   remove(signal, handle)     removes it, in constant time, unless it is gone already
//   DOMException               for `new DOMException(message, name)`
//
// Where `global` has an AbortSignal already, the hooks speak to that one, and a listener stands for an
// algorithm: only who makes a signal can give it algorithms.
//
// INVARIANT: what scripts change later does not matter. All that is used of the language is taken now;
// lists have no prototype; state is in private fields. So behind this line and outside of functions
// everything may be used, and inside of functions nothing that looks up a prototype: no `for of`, no
// spread, no `push`, no `catch` of a promise.
(function (global, host) {
  'use strict';

  const { Error, Number, Object, Promise, Reflect, Symbol, TypeError, WeakRef, isFinite } = global;
  const { apply, construct, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const { create, setPrototypeOf, prototype: { isPrototypeOf } } = Object;
  const { iterator: ITERATOR, toStringTag: TO_STRING_TAG } = Symbol;
  const { MAX_SAFE_INTEGER } = Number;
  const { trunc } = global.Math;
  const { now: dateNow } = global.Date;
  const dereference = WeakRef?.prototype.deref;
  const { report, setTimeout, now = dateNow } = host ?? {};
  const timeOrigin = now();

  const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';
  const isCallable = (value) => typeof value === 'function';

  /**
   * A list that no prototype can disturb. It is no array, as Boa 0.22 forgets to remove the elements behind
   * a new `length` once the place that sets it has been run before.
   */
  const list = () => ({ __proto__: null, length: 0 });
  const append = (items, item) => (items[items.length++] = item);

  function truncate(items, length) {
    while (items.length > length) delete items[--items.length];
  }

  function removeFrom(items, item) {
    let index = 0;
    while (index < items.length && items[index] !== item) index++;
    for (; index < items.length - 1; index++) items[index] = items[index + 1];
    truncate(items, index);
  }

  /** Tells of an exception that nobody can catch, and goes on, whatever `report` does. */
  function tell(error) {
    const unhandled = (error) => void new Promise((resolve, reject) => reject(error));
    if (!report) return unhandled(error);
    try {
      report(error);
    } catch (another) {
      unhandled(error);
      unhandled(another);
    }
  }

  // ---- Platform objects

  /** A constructor that returns an object has the private fields of its class added to that object. */
  class Given {
    constructor(object) {
      return object;
    }
  }

  /** Internal slots: what makes an object one of an interface, whatever its prototype is by now. */
  function slots() {
    class Slots extends Given {
      #state;

      constructor(object, state) {
        super(object);
        this.#state = state;
      }

      /** The state of `value`, undefined if it is no such object. */
      static of(value) {
        return isObject(value) && #state in value ? value.#state : undefined;
      }
    }
    const { of } = Slots;
    return {
      of,
      give(object, state) {
        new Slots(object, state);
        return object;
      },
      /** The state of what a member was called on. */
      on(self) {
        const state = of(self);
        if (state === undefined) throw new TypeError('this is no object of the interface');
        return state;
      },
    };
  }

  /** Gives the members of an interface the attributes that WebIDL asks for. */
  function asInterface(constructor, name, constants = {}) {
    for (const [object, others] of [[constructor, ['prototype', 'name', 'length']], [constructor.prototype, ['constructor']]]) {
      for (const key of ownKeys(object)) {
        if (!others.includes(key)) defineProperty(object, key, { enumerable: true });
      }
      for (const [key, value] of Object.entries(constants)) defineProperty(object, key, { value, enumerable: true });
    }
    defineProperty(constructor.prototype, TO_STRING_TAG, { value: name, configurable: true });
    if (global[name] === undefined) defineProperty(global, name, { value: constructor, writable: true, configurable: true });
  }

  function need(count, given, what) {
    if (given < count) throw new TypeError(`${what} needs ${count} argument${count === 1 ? '' : 's'}, and has ${given}`);
  }

  /** A value for a dictionary, of which members are to be read; undefined if it has none. */
  function dictionary(value, what) {
    if (value === undefined || value === null) return undefined;
    if (!isObject(value)) throw new TypeError(`${what} must be an object`);
    return value;
  }

  // ---- DOMException: https://webidl.spec.whatwg.org/#idl-DOMException

  /** Its names with a code, each at the place of the code. */
  const CODES = [
    'INDEX_SIZE_ERR IndexSizeError', 'DOMSTRING_SIZE_ERR', 'HIERARCHY_REQUEST_ERR HierarchyRequestError',
    'WRONG_DOCUMENT_ERR WrongDocumentError', 'INVALID_CHARACTER_ERR InvalidCharacterError', 'NO_DATA_ALLOWED_ERR',
    'NO_MODIFICATION_ALLOWED_ERR NoModificationAllowedError', 'NOT_FOUND_ERR NotFoundError',
    'NOT_SUPPORTED_ERR NotSupportedError', 'INUSE_ATTRIBUTE_ERR InUseAttributeError', 'INVALID_STATE_ERR InvalidStateError',
    'SYNTAX_ERR SyntaxError', 'INVALID_MODIFICATION_ERR InvalidModificationError', 'NAMESPACE_ERR NamespaceError',
    'INVALID_ACCESS_ERR InvalidAccessError', 'VALIDATION_ERR', 'TYPE_MISMATCH_ERR TypeMismatchError',
    'SECURITY_ERR SecurityError', 'NETWORK_ERR NetworkError', 'ABORT_ERR AbortError', 'URL_MISMATCH_ERR URLMismatchError',
    'QUOTA_EXCEEDED_ERR QuotaExceededError', 'TIMEOUT_ERR TimeoutError', 'INVALID_NODE_TYPE_ERR InvalidNodeTypeError',
    'DATA_CLONE_ERR DataCloneError',
  ].map((line, index) => [...line.split(' '), index + 1]);

  function makeDOMException() {
    const exceptions = slots();
    const codes = setPrototypeOf(Object.fromEntries(CODES.filter(({ length }) => length === 3).map(([, name, code]) => [name, code])), null);

    class DOMException {
      constructor(message = '', name = 'Error') {
        // Of the language's own making, so that it has a stack where errors have one.
        const state = { message: `${message}`, name: `${name}` };
        return exceptions.give(construct(Error, [], new.target), state);
      }

      get name() {
        return exceptions.on(this).name;
      }

      get message() {
        return exceptions.on(this).message;
      }

      get code() {
        return codes[exceptions.on(this).name] ?? 0;
      }
    }
    setPrototypeOf(DOMException.prototype, Error.prototype);
    asInterface(DOMException, 'DOMException', Object.fromEntries(CODES.map(([constant, ...rest]) => [constant, rest.at(-1)])));
    return DOMException;
  }

  const DOMException = global.DOMException ?? makeDOMException();

  // ---- Event and EventTarget: https://dom.spec.whatwg.org/#events
  //
  // Targets have no parents: the path of an event is its target alone.

  function makeEvents() {
    const events = slots();
    const targets = slots();
    const [NONE, AT_TARGET] = [0, 2];

    // An attribute that cannot be forged is a property of each object.
    const isTrusted = {
      __proto__: null, enumerable: true, configurable: false,
      get: getOwnPropertyDescriptor({ get isTrusted() { return events.on(this).trusted; } }, 'isTrusted').get,
    };

    function giveEvent(event, type, bubbles, cancelable, composed, trusted) {
      const state = {
        __proto__: null, type, bubbles, cancelable, composed, trusted, target: null, currentTarget: null, phase: NONE,
        dispatched: false, stopped: false, stoppedAtOnce: false, canceled: false, passive: false, time: now() - timeOrigin,
      };
      defineProperty(event, 'isTrusted', isTrusted);
      return events.give(event, state);
    }

    function cancel(state) {
      if (state.cancelable && !state.passive) state.canceled = true;
    }

    class Event {
      constructor(type, eventInitDict = undefined) {
        need(1, arguments.length, 'Event');
        const name = `${type}`;
        const init = dictionary(eventInitDict, 'what an event is made with');
        giveEvent(this, name, !!init?.bubbles, !!init?.cancelable, !!init?.composed, false);
      }

      get type() { return events.on(this).type; }
      get target() { return events.on(this).target; }
      get srcElement() { return events.on(this).target; }
      get currentTarget() { return events.on(this).currentTarget; }
      get eventPhase() { return events.on(this).phase; }
      get bubbles() { return events.on(this).bubbles; }
      get cancelable() { return events.on(this).cancelable; }
      get composed() { return events.on(this).composed; }
      get defaultPrevented() { return events.on(this).canceled; }
      get timeStamp() { return events.on(this).time; }

      get cancelBubble() { return events.on(this).stopped; }
      set cancelBubble(value) {
        const state = events.on(this);
        if (value) state.stopped = true;
      }

      get returnValue() { return !events.on(this).canceled; }
      set returnValue(value) {
        const state = events.on(this);
        if (!value) cancel(state);
      }

      composedPath() {
        const { currentTarget } = events.on(this);
        return currentTarget === null ? [] : [currentTarget];
      }

      stopPropagation() {
        events.on(this).stopped = true;
      }

      stopImmediatePropagation() {
        const state = events.on(this);
        state.stopped = state.stoppedAtOnce = true;
      }

      preventDefault() {
        cancel(events.on(this));
      }

      initEvent(type, bubbles = false, cancelable = false) {
        const state = events.on(this);
        need(1, arguments.length, 'initEvent');
        const name = `${type}`;
        if (state.dispatched) return;
        state.type = name;
        state.bubbles = !!bubbles;
        state.cancelable = !!cancelable;
        state.stopped = state.stoppedAtOnce = state.canceled = state.trusted = false;
        state.target = null;
      }
    }
    asInterface(Event, 'Event', { NONE, CAPTURING_PHASE: 1, AT_TARGET, BUBBLING_PHASE: 3 });
    const { prototype: eventPrototype } = Event;

    /** @param {(type: string, change: 1 | -1) => void} [watched]  told of listeners that come and go */
    const giveTarget = (target, watched) => targets.give(target, { __proto__: null, listeners: list(), watched });

    /** @returns {object | undefined} the listener in `listeners` that is the same to the DOM */
    function find(listeners, type, callback, capture) {
      for (let index = 0; index < listeners.length; index++) {
        const listener = listeners[index];
        if (listener.type === type && listener.callback === callback && listener.capture === capture) return listener;
      }
      return undefined;
    }

    function addListener(state, listener) {
      const { type, callback, capture, signal } = listener;
      if (find(state.listeners, type, callback, capture)) return;
      append(state.listeners, listener);
      state.watched?.(type, 1);
      if (signal !== undefined) listener.handle = hooks.add(signal, () => removeListener(state, listener));
    }

    function removeListener(state, listener) {
      if (listener.removed) return;
      listener.removed = true;
      removeFrom(state.listeners, listener);
      state.watched?.(listener.type, -1);
      // It would do nothing any more, and the signal may live for long.
      if (listener.signal !== undefined) hooks.remove(listener.signal, listener.handle);
    }

    function listenerOf(callback) {
      if (callback === undefined || callback === null) return null;
      if (!isObject(callback)) throw new TypeError('a listener must be a function or an object');
      return callback;
    }

    /** The `capture` of what is either options or a boolean. */
    const captureOf = (options) => (isObject(options) ? !!options.capture : !!options);

    class EventTarget {
      constructor() {
        giveTarget(this);
      }

      addEventListener(type, callback, options = undefined) {
        const state = targets.on(this);
        need(2, arguments.length, 'addEventListener');
        const listener = {
          __proto__: null, type: `${type}`, callback: listenerOf(callback), capture: captureOf(options), once: false,
          passive: false, signal: undefined, handle: undefined, removed: false,
        };
        if (isObject(options)) {
          listener.once = !!options.once;
          listener.passive = !!options.passive;
          const { signal } = options;
          if (signal !== undefined && !hooks.isSignal(signal)) throw new TypeError('signal must be an AbortSignal');
          listener.signal = signal;
          if (signal !== undefined && hooks.aborted(signal)) return;
        }
        if (listener.callback !== null) addListener(state, listener);
      }

      removeEventListener(type, callback, options = undefined) {
        const state = targets.on(this);
        need(2, arguments.length, 'removeEventListener');
        const name = `${type}`;
        const wanted = listenerOf(callback);
        const listener = find(state.listeners, name, wanted, captureOf(options));
        if (listener) removeListener(state, listener);
      }

      dispatchEvent(event) {
        const state = targets.on(this);
        need(1, arguments.length, 'dispatchEvent');
        const eventState = events.of(event);
        if (eventState === undefined) throw new TypeError('what is dispatched must be an Event');
        if (eventState.dispatched) throw new DOMException('the event is being dispatched already', 'InvalidStateError');
        eventState.trusted = false;
        return dispatch(this, state, event, eventState);
      }
    }
    asInterface(EventTarget, 'EventTarget');

    // https://dom.spec.whatwg.org/#concept-event-dispatch, of a path with one target
    function dispatch(target, { listeners }, event, state) {
      state.dispatched = true;
      state.target = state.currentTarget = target;
      state.phase = AT_TARGET;
      invoke(true, target, listeners, event, state);
      invoke(false, target, listeners, event, state);
      state.phase = NONE;
      state.currentTarget = null;
      state.dispatched = state.stopped = state.stoppedAtOnce = false;
      return !state.canceled;
    }

    // https://dom.spec.whatwg.org/#concept-event-listener-invoke
    function invoke(capture, target, listeners, event, state) {
      if (state.stopped) return;
      const copy = list();
      for (let index = 0; index < listeners.length; index++) append(copy, listeners[index]);
      for (let index = 0; index < copy.length; index++) {
        const listener = copy[index];
        if (listener.removed || listener.type !== state.type || listener.capture !== capture) continue;
        if (listener.once) removeListener(targets.of(target), listener);
        state.passive = listener.passive;
        try {
          call(listener.callback, target, event);
        } catch (error) {
          tell(error);
        }
        state.passive = false;
        if (state.stoppedAtOnce) return;
      }
    }

    // https://webidl.spec.whatwg.org/#call-a-user-objects-operation
    function call(callback, target, event) {
      if (isCallable(callback)) {
        apply(callback, target, [event]);
        return;
      }
      const { handleEvent } = callback;
      if (!isCallable(handleEvent)) throw new TypeError('handleEvent of a listener is no function');
      apply(handleEvent, callback, [event]);
    }

    return {
      EventTarget,
      /** Whether all listeners are told of, so that nothing has to live because it may have some. */
      watches: true,
      make: (constructor, watched) => giveTarget(create(constructor.prototype), watched),
      listen(target, callback) {
        addListener(targets.of(target), {
          __proto__: null, type: 'abort', callback, capture: false, once: false, passive: false, signal: undefined,
          handle: undefined, removed: false,
        });
      },
      unlisten(target, callback) {
        const state = targets.of(target);
        removeListener(state, find(state.listeners, 'abort', callback, false));
      },
      cancel: (event) => cancel(events.of(event)),
      fireAbort(target) {
        const event = giveEvent(create(eventPrototype), 'abort', false, false, false, true);
        dispatch(target, targets.of(target), event, events.of(event));
      },
    };
  }

  /** The same of somebody else's events, by what scripts can do as well. */
  function adoptEvents(Event, EventTarget) {
    const { addEventListener, removeEventListener, dispatchEvent } = EventTarget.prototype;
    const { preventDefault } = Event.prototype;
    return {
      EventTarget,
      watches: false,
      make: (constructor) => construct(EventTarget, [], constructor),
      listen: (target, callback) => apply(addEventListener, target, ['abort', callback]),
      unlisten: (target, callback) => apply(removeEventListener, target, ['abort', callback]),
      cancel: (event) => apply(preventDefault, event, []),
      fireAbort: (target) => apply(dispatchEvent, target, [construct(Event, ['abort'])]),
    };
  }

  // ---- AbortController and AbortSignal: https://dom.spec.whatwg.org/#aborting-ongoing-activities

  function makeAbort(base) {
    const signals = slots();
    const controllers = slots();

    function makeSignal() {
      const algorithms = { __proto__: null, algorithm: undefined, previous: null, next: null };
      algorithms.previous = algorithms.next = algorithms;
      const state = {
        __proto__: null,
        signal: undefined,
        /** Undefined until it has aborted; no reason is undefined. */
        reason: undefined,
        /** The sentinel of a ring: an algorithm is taken out of the middle in constant time. */
        algorithms,
        /** How many algorithms and listeners of `abort` there are. */
        observers: 0,
        /** Of a dependent signal: weak references to its sources, and what those have of it. */
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

    // ---- A source holds its dependents weakly, but while somebody would see them abort.

    const toWeak = (object) => (dereference ? new WeakRef(object) : object);
    const fromWeak = (reference) => (dereference ? apply(dereference, reference, []) : reference);

    function observe(state, change) {
      state.observers += change;
      keep(state);
    }

    function keep({ entry, observers, signal, reason }) {
      if (entry) entry.kept = reason === undefined && (observers > 0 || !base.watches) ? signal : null;
    }

    /** Adds to the dependents of `source`, and takes out those that are no more. */
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
      // Who has aborted gets no new ones: what an algorithm removes is all that can change.
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
      // It is the last one if it is there already, for nobody else was added meanwhile.
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

  /** The same of somebody else's signals. */
  function adoptAbort({ prototype }) {
    const { addEventListener, removeEventListener } = prototype;
    const aborted = getter(prototype, 'aborted');
    const reason = getter(prototype, 'reason');
    // A getter of a platform object throws where it is not called on one, and that decides. Of a
    // class of a script only the prototype tells.
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

  const hasEvents = isCallable(global.Event) && isCallable(global.EventTarget);
  const hooks = isCallable(global.AbortSignal)
    ? adoptAbort(global.AbortSignal)
    : makeAbort(hasEvents ? adoptEvents(global.Event, global.EventTarget) : makeEvents());
  // An embedder may have signals of its own and yet no events.
  if (!hasEvents && isCallable(global.AbortSignal) && global.EventTarget === undefined) makeEvents();
  return { ...hooks, DOMException };
});
