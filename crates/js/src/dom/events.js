// Event and EventTarget: https://dom.spec.whatwg.org/#events
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
    // The listener would do nothing any more, and its signal may live for long.
    if (listener.signal !== undefined) hooks.remove(listener.signal, listener.handle);
  }

  function listenerOf(callback) {
    if (callback === undefined || callback === null) return null;
    if (!isObject(callback)) throw new TypeError('a listener must be a function or an object');
    return callback;
  }

  /** The `capture` of an argument that is either options or a boolean. */
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
    /** Whether we are told of all listeners. If so, no target has to live only because it may have some. */
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

/** The same for the events that `global` has already, by what scripts can do as well. */
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
