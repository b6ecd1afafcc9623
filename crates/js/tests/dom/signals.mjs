// AbortController and AbortSignal, as scripts see them.

import { equal, ok, same, throwsTypeError } from './assert.mjs';

const isAbortError = (error, { DOMException }) => error instanceof DOMException && error.name === 'AbortError';

export default {
  'a signal aborts once, with a reason'(realm) {
    const controller = new realm.AbortController();
    const { signal } = controller;
    same(controller.signal, signal, 'the signal, read again');
    equal([signal.aborted, signal.reason], [false, undefined], 'before');
    same(signal.throwIfAborted(), undefined, 'throwIfAborted');
    controller.abort('why');
    controller.abort('why not');
    equal([signal.aborted, signal.reason], [true, 'why'], 'afterwards');
    let thrown;
    try { signal.throwIfAborted(); } catch (error) { thrown = error; }
    same(thrown, 'why', 'what throwIfAborted throws');
    for (const reason of [null, 0, '', false]) same(realm.AbortSignal.abort(reason).reason, reason, `the reason ${reason}`);
    for (const args of [[], [undefined]]) {
      ok(isAbortError(realm.AbortSignal.abort(...args).reason, realm), 'the reason of AbortSignal.abort()');
      const other = new realm.AbortController();
      other.abort(...args);
      ok(isAbortError(other.signal.reason, realm), 'the reason of abort()');
    }
  },

  'a signal tells its listeners by a trusted event'({ AbortController, Event, EventTarget }) {
    const controller = new AbortController();
    const { signal } = controller;
    ok(signal instanceof EventTarget, 'a signal is an EventTarget');
    const events = [];
    signal.addEventListener('abort', (event) => events.push(event));
    controller.abort();
    controller.abort();
    same(events.length, 1, 'the number of events');
    const [event] = events;
    equal([event.type, event.isTrusted, event.bubbles, event.cancelable, event.target === signal], ['abort', true, false, false, true], 'the event');
    same(Object.getPrototypeOf(event), Event.prototype, 'its prototype');
    new EventTarget().dispatchEvent(event);
    same(event.isTrusted, false, 'isTrusted once a script has dispatched it');
  },

  'signals are not made by scripts'({ AbortSignal, AbortController }) {
    throwsTypeError(() => new AbortSignal(), 'new AbortSignal');
    throwsTypeError(() => AbortSignal(), 'AbortSignal without new');
    throwsTypeError(() => new (class extends AbortSignal {})(), 'a subclass');
    throwsTypeError(() => AbortController(), 'AbortController without new');
    same(Object.prototype.toString.call(AbortSignal.abort()), '[object AbortSignal]', 'the tag');
    equal(Reflect.ownKeys(AbortSignal.abort()), [], 'what a signal has of its own');
  },

  'onabort is a listener at the place where it was set first'({ AbortController, AbortSignal, Event }) {
    const controller = new AbortController();
    const { signal } = controller;
    const calls = [];
    same(signal.onabort, null, 'at first');
    signal.addEventListener('abort', () => calls.push('before'));
    signal.onabort = () => calls.push('replaced');
    signal.addEventListener('abort', () => calls.push('behind'));
    const handler = function (event) { calls.push(['handler', this === signal, event.type]); };
    signal.onabort = handler;
    same(signal.onabort, handler, 'read');
    signal.dispatchEvent(new Event('abort'));
    equal(calls, ['before', ['handler', true, 'abort'], 'behind'], 'calls');
    signal.onabort = 1;
    same(signal.onabort, null, 'a number');
    calls.length = 0;
    signal.dispatchEvent(new Event('abort'));
    equal(calls, ['before', 'behind'], 'calls without a handler');
    signal.onabort = handler;
    calls.length = 0;
    controller.abort();
    equal(calls, ['before', 'behind', ['handler', true, 'abort']], 'calls of a handler that was set anew');
    const object = {};
    const other = AbortSignal.abort();
    other.onabort = object;
    same(other.onabort, object, 'an object that cannot be called');
    other.dispatchEvent(new Event('abort'));
  },

  'a handler cancels by returning false'({ AbortSignal, Event }) {
    const signal = AbortSignal.abort();
    signal.onabort = () => false;
    same(signal.dispatchEvent(new Event('abort', { cancelable: true })), false, 'what can be canceled');
    same(signal.dispatchEvent(new Event('abort')), true, 'what cannot');
    signal.onabort = () => 0;
    same(signal.dispatchEvent(new Event('abort', { cancelable: true })), true, 'by 0');
  },

  'a dependent signal aborts with the first of its sources'({ AbortController, AbortSignal }) {
    const [one, two] = [new AbortController(), new AbortController()];
    const signal = AbortSignal.any([one.signal, two.signal, one.signal]);
    const order = [];
    one.signal.addEventListener('abort', () => order.push(['source', signal.aborted, signal.reason]));
    signal.addEventListener('abort', () => order.push(['dependent', signal.reason]));
    same(signal.aborted, false, 'at first');
    one.abort('one');
    two.abort('two');
    equal(order, [['source', true, 'one'], ['dependent', 'one']], 'the order of events');
    same(signal.reason, 'one', 'the reason');
  },

  'a dependent signal of an aborted one has aborted'({ AbortController, AbortSignal }) {
    const signal = AbortSignal.any([new AbortController().signal, AbortSignal.abort(1), AbortSignal.abort(2)]);
    equal([signal.aborted, signal.reason], [true, 1], 'the signal');
    same(AbortSignal.any([]).aborted, false, 'of none');
  },

  'dependents of dependents abort with their sources, in the order in which they were made'({ AbortController, AbortSignal }) {
    const controller = new AbortController();
    const order = [];
    const listen = (name, signal) => (signal.addEventListener('abort', () => order.push(name)), signal);
    const first = listen('first', AbortSignal.any([controller.signal]));
    const second = listen('second', AbortSignal.any([first, new AbortController().signal]));
    listen('third', AbortSignal.any([second, controller.signal]));
    listen('source', controller.signal);
    controller.abort('why');
    equal(order, ['source', 'first', 'second', 'third'], 'the order of events');
  },

  'a dependent that aborts while another does is aborted once, and sees all aborted'({ AbortController, AbortSignal }) {
    const [one, two] = [new AbortController(), new AbortController()];
    const both = AbortSignal.any([one.signal, two.signal]);
    const later = AbortSignal.any([one.signal]);
    const order = [];
    one.signal.addEventListener('abort', () => two.abort('two'));
    both.addEventListener('abort', () => order.push([both.reason, later.aborted]));
    one.abort('one');
    equal(order, [['one', true]], 'events');
  },

  'AbortSignal.any takes what is iterable'({ AbortController, AbortSignal }) {
    const { signal } = new AbortController();
    for (const [what, value] of Object.entries({ nothing: undefined, null: null, number: 1, string: 'x', object: {}, signal })) {
      throwsTypeError(() => AbortSignal.any(value), what);
    }
    throwsTypeError(() => AbortSignal.any(), 'no argument');
    throwsTypeError(() => AbortSignal.any([signal, {}]), 'an object in it');
    throwsTypeError(() => AbortSignal.any([signal, null]), 'null in it');
    throwsTypeError(() => AbortSignal.any([new Proxy(signal, {})]), 'a proxy in it');
    same(AbortSignal.any(new Set([signal, AbortSignal.abort(1)])).reason, 1, 'of a Set');
    const error = new Error('as planned');
    let thrown;
    try { AbortSignal.any({ [Symbol.iterator]: () => ({ next() { throw error; } }) }); } catch (caught) { thrown = caught; }
    same(thrown, error, 'what the iterator throws');
  },

  'a signal keeps no listener of a dependent that nobody has'({ AbortController, AbortSignal }) {
    const controller = new AbortController();
    for (let count = 0; count < 1_000; count++) AbortSignal.any([controller.signal]);
    let heard = 0;
    for (let count = 0; count < 50; count++) AbortSignal.any([controller.signal]).addEventListener('abort', () => heard++);
    controller.abort();
    same(heard, 50, 'listeners of dependents that nothing else holds');
  },

  async 'a signal that times out says so'({ AbortSignal, DOMException }) {
    const signal = AbortSignal.timeout(1);
    same(signal.aborted, false, 'at first');
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    ok(signal.reason instanceof DOMException, 'the reason is a DOMException');
    equal([signal.reason.name, signal.reason.code], ['TimeoutError', 23], 'the reason');
  },

  'the time of a signal is converted as WebIDL says'({ AbortSignal }) {
    for (const time of [-1, NaN, Infinity, 2 ** 53, undefined, 'x', {}, Symbol('x'), 1n]) {
      throwsTypeError(() => AbortSignal.timeout(time), `the time ${String(time)}`);
    }
    throwsTypeError(() => AbortSignal.timeout(), 'no time');
    for (const time of [-0.9, null, '1', 1.9]) same(AbortSignal.timeout(time).aborted, false, `the time ${time}`);
  },

  'what scripts change later does not matter'(realm) {
    const { AbortController, AbortSignal, EventTarget, globalThis } = realm;
    // This runs in the realm that is tested, so it changes the prototypes of that realm.
    const source = `(({ AbortController, AbortSignal, EventTarget }) => {
      const broken = () => { throw new Error('spoilt'); };
      const value = { __proto__: null, configurable: true, writable: true, value: broken };
      const setter = { __proto__: null, configurable: true, get: broken, set: broken };
      const spoilt = [
        ...['push', 'splice', 'filter', 'forEach', 'slice', 'includes', Symbol.iterator].map((key) => [Array.prototype, key, value]),
        [Array.prototype, '0', setter], [Array.prototype, '1', setter], [Object.prototype, 'get', value],
        [Object.prototype, 'signal', setter], [Object.prototype, 'reason', setter], [Object.prototype, 'next', setter],
        [Function.prototype, 'call', value], [Function.prototype, 'apply', value], [Promise.prototype, 'then', value],
        [EventTarget.prototype, 'addEventListener', value], [EventTarget.prototype, 'dispatchEvent', value],
        ...(typeof WeakRef === 'function' ? [[WeakRef.prototype, 'deref', value]] : []),
        [Reflect, 'apply', value], [Reflect, 'construct', value], [Object, 'setPrototypeOf', value],
      ];
      const before = spoilt.map(([object, key]) => {
        const descriptor = Object.getOwnPropertyDescriptor(object, key);
        return descriptor && Object.setPrototypeOf(descriptor, null);
      });
      const { defineProperty, deleteProperty } = Reflect;
      const [controller, other] = [new AbortController(), new AbortController()];
      const sources = { [Symbol.iterator]() { return this; }, left: 2, next() {
        return this.left-- === 2 ? { done: false, value: controller.signal } : this.left === 0 ? { done: false, value: other.signal } : { done: true };
      } };
      let calls = '';
      try {
        for (let index = 0; index < spoilt.length; index++) defineProperty(spoilt[index][0], spoilt[index][1], spoilt[index][2]);
        const signal = AbortSignal.any(sources);
        signal.onabort = () => { calls += 'dependent '; };
        controller.signal.onabort = () => { calls += 'source '; };
        controller.abort();
      } catch (error) {
        calls += error;
      } finally {
        for (let index = spoilt.length - 1; index >= 0; index--) {
          if (before[index]) defineProperty(spoilt[index][0], spoilt[index][1], before[index]);
          else deleteProperty(spoilt[index][0], spoilt[index][1]);
        }
      }
      return calls;
    })`;
    same(globalThis.eval(source)({ AbortController, AbortSignal, EventTarget }), 'source dependent ', 'what was called');
  },
};
