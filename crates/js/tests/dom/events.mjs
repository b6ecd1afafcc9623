// DOMException, Event and EventTarget, as scripts see them.

import { equal, ok, same, throwsDOMException, throwsTypeError } from './assert.mjs';

export default {
  'a DOMException has a name, a message and a code'({ DOMException }) {
    const error = new DOMException('what', 'AbortError');
    equal([error.name, error.message, error.code], ['AbortError', 'what', 20], 'name, message and code');
    const other = new DOMException();
    equal([other.name, other.message, other.code], ['Error', '', 0], 'the defaults');
    const unknown = new DOMException(undefined, 'AbortErrors');
    equal([unknown.name, unknown.message, unknown.code], ['AbortErrors', '', 0], 'an unknown name');
    equal([new DOMException(1, null).message, new DOMException(1, null).name], ['1', 'null'], 'what is converted');
    throwsTypeError(() => new DOMException(Symbol('what')), 'a Symbol');
    throwsTypeError(() => DOMException('what'), 'without new');
  },

  'a DOMException is an Error'({ DOMException, Error }) {
    const error = new DOMException('what', 'AbortError');
    ok(error instanceof Error, 'instanceof');
    same(Object.prototype.toString.call(error), '[object DOMException]', 'its tag');
    same(String(error), 'AbortError: what', 'as a string');
    same(Object.getPrototypeOf(DOMException.prototype), Error.prototype, 'the prototype of the prototype');
    same(Object.hasOwn(error, 'message') || Object.hasOwn(error, 'name'), false, 'has members of its own');
    class Mine extends DOMException {}
    same(new Mine('x', 'DataError').name, 'DataError', 'the name of a subclass');
    ok(new Mine() instanceof Mine, 'a subclass');
  },

  'DOMException has its constants'({ DOMException }) {
    const wanted = 'INDEX_SIZE DOMSTRING_SIZE HIERARCHY_REQUEST WRONG_DOCUMENT INVALID_CHARACTER NO_DATA_ALLOWED '
      + 'NO_MODIFICATION_ALLOWED NOT_FOUND NOT_SUPPORTED INUSE_ATTRIBUTE INVALID_STATE SYNTAX INVALID_MODIFICATION '
      + 'NAMESPACE INVALID_ACCESS VALIDATION TYPE_MISMATCH SECURITY NETWORK ABORT URL_MISMATCH QUOTA_EXCEEDED TIMEOUT '
      + 'INVALID_NODE_TYPE DATA_CLONE';
    wanted.split(' ').forEach((name, index) => {
      for (const object of [DOMException, DOMException.prototype]) {
        const { value, writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(object, `${name}_ERR`) ?? {};
        equal([value, writable, enumerable, configurable], [index + 1, false, true, false], name);
      }
    });
    const codes = ['IndexSizeError', 'NotFoundError', 'NotSupportedError', 'SyntaxError', 'SecurityError', 'TimeoutError', 'DataCloneError']
      .map((name) => new DOMException('', name).code);
    equal(codes, [1, 8, 9, 12, 18, 23, 25], 'codes of names');
  },

  'interfaces are what WebIDL makes of them'(realm) {
    const lengths = { DOMException: 0, Event: 1, EventTarget: 0, AbortController: 0, AbortSignal: 0 };
    for (const [name, length] of Object.entries(lengths)) {
      const { value, writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(realm.globalThis, name);
      equal([writable, enumerable, configurable], [true, false, true], `the global property ${name}`);
      equal([value.name, value.length], [name, length], `name and length of ${name}`);
      const prototype = Object.getOwnPropertyDescriptor(value, 'prototype');
      equal([prototype.writable, prototype.enumerable, prototype.configurable], [false, false, false], `${name}.prototype`);
      const tag = Object.getOwnPropertyDescriptor(value.prototype, Symbol.toStringTag);
      equal([tag.value, tag.writable, tag.enumerable, tag.configurable], [name, false, false, true], `the tag of ${name}`);
    }
    const members = {
      Event: {
        type: 'get', target: 'get', srcElement: 'get', currentTarget: 'get', composedPath: 0, eventPhase: 'get', stopPropagation: 0,
        cancelBubble: 'get set', stopImmediatePropagation: 0, bubbles: 'get', cancelable: 'get', returnValue: 'get set',
        preventDefault: 0, defaultPrevented: 'get', composed: 'get', timeStamp: 'get', initEvent: 1,
      },
      EventTarget: { addEventListener: 2, removeEventListener: 2, dispatchEvent: 1 },
      AbortController: { signal: 'get', abort: 0 },
      AbortSignal: { aborted: 'get', reason: 'get', throwIfAborted: 0, onabort: 'get set' },
      DOMException: { name: 'get', message: 'get', code: 'get' },
    };
    for (const [name, wanted] of Object.entries(members)) {
      const { prototype } = realm[name];
      const constants = Object.keys(prototype).filter((key) => /^[A-Z]/.test(key));
      equal(Object.keys(prototype).filter((key) => !constants.includes(key)).sort(), Object.keys(wanted).sort(), `the members of ${name}`);
      for (const [key, what] of Object.entries(wanted)) {
        const descriptor = Object.getOwnPropertyDescriptor(prototype, key);
        ok(descriptor.configurable, `${name}.${key} is configurable`);
        if (typeof what === 'number') {
          equal([descriptor.value.name, descriptor.value.length, descriptor.writable], [key, what, true], `the operation ${name}.${key}`);
        } else {
          equal([descriptor.get?.name, descriptor.set?.name], [`get ${key}`, what.includes('set') ? `set ${key}` : undefined], `the attribute ${name}.${key}`);
        }
      }
    }
    equal(Object.keys(realm.AbortSignal).sort(), ['abort', 'any', 'timeout'], 'the static operations of AbortSignal');
    equal(['abort', 'any', 'timeout'].map((key) => realm.AbortSignal[key].length), [0, 1, 1], 'their lengths');
    same(Object.getPrototypeOf(realm.AbortSignal), realm.EventTarget, 'the prototype of AbortSignal');
    same(Object.getPrototypeOf(realm.AbortSignal.prototype), realm.EventTarget.prototype, 'the prototype of its prototype');
  },

  'members are only for objects of their interface'({ AbortController, AbortSignal, DOMException, Event, EventTarget }) {
    const objects = {
      Event: [Event, new Event('x')], EventTarget: [EventTarget, new EventTarget()], AbortSignal: [AbortSignal, AbortSignal.abort()],
      AbortController: [AbortController, new AbortController()], DOMException: [DOMException, new DOMException()],
    };
    for (const [name, [{ prototype }, object]] of Object.entries(objects)) {
      for (const [key, { get, set, value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
        if (key === 'constructor') continue;
        for (const member of [get, set, value].filter((one) => typeof one === 'function')) {
          const others = [undefined, null, 1, {}, prototype, Object.create(object), new Proxy(object, {})];
          for (const self of others) throwsTypeError(() => Reflect.apply(member, self, ['x', null]), `${name}.${key} of a stranger`);
        }
      }
    }
  },

  'an event has what it was made with'({ Event }) {
    const event = new Event('x', { bubbles: 1, cancelable: 'yes', composed: {} });
    equal([event.type, event.bubbles, event.cancelable, event.composed, event.isTrusted, event.defaultPrevented], ['x', true, true, true, false, false], 'members');
    equal([event.target, event.currentTarget, event.srcElement, event.eventPhase], [null, null, null, 0], 'before it is dispatched');
    equal(event.composedPath(), [], 'its path');
    equal([Event.NONE, Event.CAPTURING_PHASE, event.AT_TARGET, event.BUBBLING_PHASE], [0, 1, 2, 3], 'constants');
    ok(event.timeStamp >= 0, 'its time');
    const plain = new Event(null, null);
    equal([plain.type, plain.bubbles], ['null', false], 'without options');
    throwsTypeError(() => new Event(), 'no type');
    throwsTypeError(() => new Event('x', 1), 'a number for options');
    const read = [];
    new Event('x', { get composed() { read.push('composed'); }, get cancelable() { read.push('cancelable'); }, get bubbles() { read.push('bubbles'); } });
    equal(read, ['bubbles', 'cancelable', 'composed'], 'the order of reading');
  },

  'isTrusted cannot be forged'({ Event }) {
    const [one, two] = [new Event('x'), new Event('x')].map((event) => Object.getOwnPropertyDescriptor(event, 'isTrusted'));
    equal([one.enumerable, one.configurable, one.set], [true, false, undefined], 'attributes');
    same(one.get, two.get, 'the getter');
    throwsTypeError(() => one.get.call({}), 'of a stranger');
  },

  'listeners are called in order, with the target as this'({ Event, EventTarget }) {
    const target = new EventTarget();
    const calls = [];
    target.addEventListener('x', function (event) { calls.push(['first', this === target, event.type]); });
    const object = { handleEvent() { calls.push(['object', this === object]); } };
    target.addEventListener('x', object);
    target.addEventListener('y', () => calls.push('another type'));
    const event = new Event('x');
    same(target.dispatchEvent(event), true, 'dispatchEvent');
    equal(calls, [['first', true, 'x'], ['object', true]], 'calls');
    equal([event.target === target, event.srcElement === target, event.currentTarget, event.eventPhase], [true, true, null, 0], 'the event afterwards');
  },

  'an event knows where it is while it is dispatched'({ Event, EventTarget }) {
    const target = new EventTarget();
    target.addEventListener('x', (event) => {
      equal([event.eventPhase, event.target === target, event.currentTarget === target], [2, true, true], 'within');
      ok(event.composedPath().length === 1 && event.composedPath()[0] === target, 'the path');
      throwsDOMException(() => target.dispatchEvent(event), 'InvalidStateError', 'dispatched again');
    });
    const event = new Event('x');
    target.dispatchEvent(event);
    equal(event.composedPath(), [], 'the path afterwards');
    target.dispatchEvent(event);
  },

  'capture listeners come first, at the target too'({ Event, EventTarget }) {
    const target = new EventTarget();
    const calls = [];
    const listener = (event) => calls.push(event.eventPhase);
    target.addEventListener('x', () => calls.push('bubble'));
    target.addEventListener('x', () => calls.push('capture'), true);
    target.addEventListener('x', listener, { capture: 1 });
    target.addEventListener('x', listener, false);
    target.dispatchEvent(new Event('x'));
    equal(calls, ['capture', 2, 'bubble', 2], 'calls');
    target.removeEventListener('x', listener);
    target.dispatchEvent(new Event('x'));
    equal(calls.slice(4), ['capture', 2, 'bubble'], 'without the one that does not capture');
    target.addEventListener('x', (event) => event.stopPropagation(), true);
    calls.length = 0;
    target.dispatchEvent(new Event('x'));
    equal(calls, ['capture', 2], 'stopped behind those that capture');
  },

  'a listener is there once'({ Event, EventTarget }) {
    const target = new EventTarget();
    let calls = 0;
    const listener = () => calls++;
    target.addEventListener('x', listener);
    target.addEventListener('x', listener, { passive: true, once: true });
    target.dispatchEvent(new Event('x'));
    target.dispatchEvent(new Event('x'));
    same(calls, 2, 'calls: the first of the same listener counts');
  },

  'once, a listener is gone before it is called'({ Event, EventTarget }) {
    const target = new EventTarget();
    let calls = 0;
    target.addEventListener('x', () => {
      if (calls++ === 0) target.dispatchEvent(new Event('x'));
    }, { once: true });
    target.dispatchEvent(new Event('x'));
    same(calls, 1, 'calls');
  },

  'what is added while an event is dispatched has to wait, and what is removed is gone'({ Event, EventTarget }) {
    const target = new EventTarget();
    const calls = [];
    const last = () => calls.push('last');
    target.addEventListener('x', () => {
      calls.push('first');
      target.removeEventListener('x', last);
      target.addEventListener('x', () => calls.push('new'), { once: true });
    }, { once: true });
    target.addEventListener('x', last);
    target.dispatchEvent(new Event('x'));
    equal(calls, ['first'], 'the first time');
    target.dispatchEvent(new Event('x'));
    equal(calls, ['first', 'new'], 'the second time');
  },

  'events are canceled where that may be'({ Event, EventTarget }) {
    const target = new EventTarget();
    target.addEventListener('x', (event) => event.preventDefault());
    same(target.dispatchEvent(new Event('x')), true, 'what cannot be canceled');
    const event = new Event('x', { cancelable: true });
    same(target.dispatchEvent(event), false, 'what can');
    equal([event.defaultPrevented, event.returnValue], [true, false], 'the event');
    target.addEventListener('y', (event) => { event.preventDefault(); event.returnValue = false; }, { passive: true });
    same(target.dispatchEvent(new Event('y', { cancelable: true })), true, 'by a passive listener');
    target.addEventListener('z', (event) => { event.returnValue = true; event.returnValue = 0; });
    same(target.dispatchEvent(new Event('z', { cancelable: true })), false, 'by returnValue');
  },

  'propagation is stopped at once or behind the target'({ Event, EventTarget }) {
    const target = new EventTarget();
    const calls = [];
    target.addEventListener('x', (event) => { calls.push(1); event.cancelBubble = true; event.cancelBubble = false; same(event.cancelBubble, true, 'cancelBubble'); });
    target.addEventListener('x', (event) => { calls.push(2); event.stopImmediatePropagation(); });
    target.addEventListener('x', () => calls.push(3));
    const event = new Event('x');
    target.dispatchEvent(event);
    equal(calls, [1, 2], 'calls');
    same(event.cancelBubble, false, 'afterwards');
    event.stopPropagation();
    target.dispatchEvent(event);
    equal(calls, [1, 2], 'calls of what was stopped before it was dispatched');
    target.dispatchEvent(event);
    equal(calls, [1, 2, 1, 2], 'calls of the next time');
  },

  'initEvent makes an event anew'({ Event, EventTarget }) {
    const event = new Event('x', { cancelable: true });
    new EventTarget().dispatchEvent(event);
    event.preventDefault();
    event.initEvent('y', true);
    equal([event.type, event.bubbles, event.cancelable, event.defaultPrevented, event.target], ['y', true, false, false, null], 'the event');
    const target = new EventTarget();
    target.addEventListener('y', (event) => event.initEvent('z'));
    target.dispatchEvent(event);
    same(event.type, 'y', 'the type of an event that was being dispatched');
    throwsTypeError(() => event.initEvent(), 'no type');
  },

  'what a listener throws is told, and stops nobody'({ Event, EventTarget, reported }) {
    const target = new EventTarget();
    const error = new Error('as planned');
    const calls = [];
    target.addEventListener('x', () => { throw error; });
    target.addEventListener('x', { handleEvent: 1 });
    target.addEventListener('x', () => calls.push('last'));
    target.dispatchEvent(new Event('x'));
    equal(calls, ['last'], 'calls');
    const [first, second] = reported();
    same(first, error, 'what was told first');
    ok(second instanceof TypeError, 'what was told of an object without handleEvent');
  },

  'handleEvent is looked up at each call'({ Event, EventTarget }) {
    const target = new EventTarget();
    const calls = [];
    const listener = { handleEvent: () => calls.push(1) };
    target.addEventListener('x', listener);
    listener.handleEvent = () => calls.push(2);
    target.dispatchEvent(new Event('x'));
    equal(calls, [2], 'calls');
  },

  'the arguments of listeners are converted as WebIDL says'({ Event, EventTarget }) {
    const target = new EventTarget();
    throwsTypeError(() => target.addEventListener('x'), 'one argument');
    throwsTypeError(() => target.removeEventListener('x'), 'one argument');
    throwsTypeError(() => target.dispatchEvent(), 'no event');
    throwsTypeError(() => target.dispatchEvent({ type: 'x' }), 'no Event');
    throwsTypeError(() => target.addEventListener('x', 1), 'a number for a listener');
    throwsTypeError(() => target.addEventListener(Symbol('x'), null), 'a Symbol for a type');
    throwsTypeError(() => target.addEventListener('x', null, { signal: null }), 'null for a signal');
    throwsTypeError(() => target.addEventListener('x', null, { signal: {} }), 'an object for a signal');
    same(target.addEventListener('x', null), undefined, 'null for a listener');
    same(target.addEventListener('x', undefined, null), undefined, 'undefined for a listener');
    const read = [];
    const options = {};
    for (const key of ['signal', 'passive', 'once', 'capture']) Object.defineProperty(options, key, { get: () => void read.push(key) });
    target.addEventListener('x', () => {}, options);
    equal(read, ['capture', 'once', 'passive', 'signal'], 'the order of reading');
    let calls = 0;
    target.addEventListener(1, () => calls++, 'capture');
    target.dispatchEvent(new Event('1'));
    same(calls, 1, 'calls by a type that was converted');
  },

  'a listener goes with its signal'({ AbortController, AbortSignal, Event, EventTarget }) {
    const target = new EventTarget();
    const controller = new AbortController();
    const calls = [];
    target.addEventListener('x', () => calls.push(1), { signal: controller.signal });
    target.addEventListener('x', () => calls.push(2), { signal: AbortSignal.abort() });
    target.addEventListener('x', () => { calls.push(3); controller.abort(); });
    target.addEventListener('x', () => calls.push(4), { signal: controller.signal });
    target.dispatchEvent(new Event('x'));
    equal(calls, [1, 3], 'calls, the last one having gone meanwhile');
    target.dispatchEvent(new Event('x'));
    equal(calls, [1, 3, 3], 'calls afterwards');
  },

  'a class may extend EventTarget'({ Event, EventTarget }) {
    class Mine extends EventTarget { #own = 1; own() { return this.#own; } }
    const mine = new Mine();
    let calls = 0;
    mine.addEventListener('x', () => calls++);
    mine.dispatchEvent(new (class extends Event {})('x'));
    equal([mine.own(), calls], [1, 1], 'its own and its calls');
    throwsTypeError(() => EventTarget(), 'without new');
  },
};
