// The script of dom.rs in a realm of Node that has nothing but the language: node --test tests/dom.test.mjs
//
// The tests of what scripts see (dom/*.mjs) also run in Boa and QuickJS, by navlock-js-run.

import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import v8 from 'node:v8';
import vm from 'node:vm';

import { equal, ok, same } from './dom/assert.mjs';
import events from './dom/events.mjs';
import signals from './dom/signals.mjs';

const source = (file) => readFileSync(new URL(`../src/${file}`, import.meta.url), 'utf8');
// Assembles the script as Rust does.
const parts = Array.from(source('dom.rs').matchAll(/include_str!\("(.+)"\)/g), ([, file]) => source(file));
const text = `(function (global, host) {\n'use strict';\n${parts.join('')}return { ...hooks, DOMException };\n})`;
const script = new vm.Script(text, { filename: 'dom.js' });
v8.setFlagsFromString('--expose-gc');
const collect = vm.runInNewContext('gc');

/** A realm in which the script `before` has run, and then the script DOM. */
function open(before = '', host = { setTimeout }) {
  const context = vm.createContext();
  const global = vm.runInContext('globalThis', context);
  vm.runInContext(before, context);
  const errors = [];
  const hooks = script.runInContext(context)(global, { report: (error) => errors.push(error), ...host });
  const reported = () => errors.map((error) => (error instanceof global.TypeError ? Object.assign(new TypeError(), error) : error));
  const { AbortController, AbortSignal, DOMException, Error, Event, EventTarget, TypeError: RealmTypeError } = global;
  return { AbortController, AbortSignal, DOMException, Error, Event, EventTarget, TypeError: RealmTypeError, globalThis: global, hooks, reported, errors };
}

for (const [name, run] of Object.entries({ ...events, ...signals })) test(name, () => run(open()));

test('algorithms run before listeners, and those of dependents behind those of their source', () => {
  const { AbortController, AbortSignal, hooks } = open();
  const controller = new AbortController();
  const { signal } = controller;
  const dependent = AbortSignal.any([signal]);
  const order = [];
  dependent.addEventListener('abort', () => order.push('listener of the dependent'));
  signal.addEventListener('abort', () => order.push('listener'));
  hooks.add(dependent, () => order.push('algorithm of the dependent'));
  hooks.add(signal, () => order.push('algorithm'));
  hooks.add(signal, () => order.push('another'));
  controller.abort();
  equal(order, ['algorithm', 'another', 'listener', 'algorithm of the dependent', 'listener of the dependent'], 'the order');
});

test('an algorithm that was removed does not run, also while others do', () => {
  const { AbortController, hooks } = open();
  const controller = new AbortController();
  const { signal } = controller;
  const order = [];
  const first = hooks.add(signal, () => order.push('removed before'));
  hooks.add(signal, () => {
    order.push('first');
    hooks.remove(signal, third);
  });
  const third = hooks.add(signal, () => order.push('removed meanwhile'));
  const last = hooks.add(signal, () => order.push('last'));
  hooks.remove(signal, first);
  hooks.remove(signal, first);
  controller.abort();
  equal(order, ['first', 'last'], 'the order');
  hooks.remove(signal, last);
  hooks.remove(signal, undefined);
  same(hooks.add(signal, () => {}), undefined, 'what is added to a signal that has aborted');
});

test('an algorithm that throws is told of, and stops nobody', () => {
  const { AbortController, hooks, errors } = open();
  const controller = new AbortController();
  const order = [];
  hooks.add(controller.signal, () => {
    throw new Error('as planned');
  });
  hooks.add(controller.signal, () => order.push('algorithm'));
  controller.signal.onabort = () => order.push('listener');
  controller.abort();
  equal(order, ['algorithm', 'listener'], 'the order');
  same(errors[0].message, 'as planned', 'what was told');
});

test('no listener, and nothing that a script puts into prototypes, keeps an abort from an algorithm', () => {
  const { AbortController, EventTarget, hooks } = open();
  const controller = new AbortController();
  controller.signal.addEventListener('abort', (event) => event.stopImmediatePropagation(), true);
  EventTarget.prototype.addEventListener = undefined;
  let called = false;
  hooks.add(controller.signal, () => (called = true));
  controller.abort();
  ok(called, 'the algorithm has run');
});

test('hooks know signals by what they are', () => {
  const { AbortController, AbortSignal, hooks } = open();
  const { signal } = new AbortController();
  ok(hooks.isSignal(signal) && hooks.isSignal(AbortSignal.abort()) && hooks.isSignal(AbortSignal.any([])), 'signals');
  Object.setPrototypeOf(signal, null);
  ok(hooks.isSignal(signal), 'a signal without its prototype');
  for (const other of [undefined, null, 1, 'x', Symbol('x'), {}, () => {}, AbortSignal.prototype, Object.create(signal), new Proxy(signal, {})]) {
    same(hooks.isSignal(other), false, 'a stranger');
  }
  same(hooks.aborted(AbortSignal.abort(1)), true, 'aborted');
  same(hooks.reason(AbortSignal.abort(1)), 1, 'the reason');
});

test('without a host there is no AbortSignal.timeout, and what a listener throws is an unhandled rejection', () => {
  const { AbortSignal, Event, EventTarget, globalThis } = open(`
    globalThis.Promise = class { constructor(executor) { executor(undefined, (error) => (globalThis.rejected = error)); } };
  `, { report: undefined });
  same(AbortSignal.timeout, undefined, 'AbortSignal.timeout');
  const error = new Error('as planned');
  const target = new EventTarget();
  target.addEventListener('x', () => {
    throw error;
  });
  target.dispatchEvent(new Event('x'));
  same(globalThis.rejected, error, 'what a promise was rejected with');
});

test('a report that throws stops no listener and no algorithm, and both errors are unhandled rejections', () => {
  const { AbortController, hooks, globalThis } = open(`
    globalThis.rejected = [];
    globalThis.Promise = class { constructor(executor) { executor(undefined, (error) => rejected.push(error)); } };
  `, {
    report() {
      throw 'of the report';
    },
  });
  const controller = new AbortController();
  const order = [];
  const thrower = (error) => () => {
    order.push(error);
    throw error;
  };
  hooks.add(controller.signal, thrower('of an algorithm'));
  hooks.add(controller.signal, () => order.push('algorithm'));
  controller.signal.addEventListener('abort', thrower('of a listener'));
  controller.signal.addEventListener('abort', () => order.push('listener'));
  controller.abort();
  equal(order, ['of an algorithm', 'algorithm', 'of a listener', 'listener'], 'the order');
  equal([...globalThis.rejected], ['of an algorithm', 'of the report', 'of a listener', 'of the report'], 'what was rejected');
});

/** How many of `count` objects that `make` returns still exist after a collection, when nothing refers to them. */
async function left(count, make) {
  const references = Array.from({ length: count }, () => new WeakRef(make()));
  // A WeakRef holds its object until the end of the task.
  await new Promise((resolve) => setTimeout(resolve));
  collect();
  return references.filter((reference) => reference.deref() !== undefined).length;
}

test('a source keeps no dependents that nobody would see abort, and those that somebody would', async () => {
  const { AbortController, AbortSignal, hooks } = open();
  const controller = new AbortController();
  const dependent = () => AbortSignal.any([controller.signal]);
  same(await left(50, dependent), 0, 'dependents without listeners');
  let heard = 0;
  same(await left(10, () => {
    const signal = dependent();
    signal.addEventListener('abort', () => heard++);
    return signal;
  }), 10, 'dependents with listeners');
  same(await left(10, () => {
    const signal = dependent();
    hooks.add(signal, () => heard++);
    return signal;
  }), 10, 'dependents with algorithms');
  same(await left(10, () => {
    const signal = dependent();
    hooks.remove(signal, hooks.add(signal, () => heard++));
    const listener = () => heard++;
    signal.addEventListener('abort', listener);
    signal.removeEventListener('abort', listener);
    signal.addEventListener('other', listener);
    signal.onabort = listener;
    signal.onabort = null;
    return signal;
  }), 0, 'dependents whose listeners and algorithms were removed');
  controller.abort();
  same(heard, 20, 'listeners and algorithms that ran');
  same(await left(10, dependent), 0, 'dependents of a signal that has aborted');
});

test('a dependent keeps none of its sources, and a signal none of the listeners that were removed', async () => {
  const { AbortController, AbortSignal, EventTarget } = open();
  const dependents = [];
  same(await left(20, () => {
    const { signal } = new AbortController();
    dependents.push(AbortSignal.any([signal]));
    return signal;
  }), 0, 'sources');
  const { signal } = new AbortController();
  const target = new EventTarget();
  same(await left(20, () => {
    const listener = () => {};
    target.addEventListener('x', listener, { signal });
    target.removeEventListener('x', listener);
    return listener;
  }), 0, 'listeners');
});

test('a source does not grow with the number of dependents that it had', async () => {
  const { AbortController, AbortSignal } = open();
  const { signal } = new AbortController();
  const round = async () => {
    for (let count = 0; count < 20_000; count++) AbortSignal.any([signal]);
    await new Promise((resolve) => setTimeout(resolve));
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = await round();
  for (let count = 0; count < 10; count++) await round();
  // If 200,000 dependents left their references and entries, these would take more than 20 MB.
  ok((await round()) - before < 10_000_000, 'the memory has grown');
});

test('where there are no weak references all of it works', () => {
  const { AbortController, AbortSignal } = open('delete globalThis.WeakRef');
  const controller = new AbortController();
  const signal = AbortSignal.any([AbortSignal.any([controller.signal])]);
  controller.abort('why');
  same(signal.reason, 'why', 'the reason');
});

const SIGNALS_OF_A_SCRIPT = `
  globalThis.EventTarget = class EventTarget {
    #listeners = new Map();
    addEventListener(type, listener, { once = false } = {}) { this.#listeners.set(listener, { type, once }); }
    removeEventListener(type, listener) { this.#listeners.delete(listener); }
    dispatchEvent(event) {
      for (const [listener, { type, once }] of [...this.#listeners]) {
        if (type !== event.type) continue;
        if (once) this.#listeners.delete(listener);
        listener.call(this, event);
      }
    }
    get listeners() { return this.#listeners.size; }
  };
  globalThis.Event = class Event { constructor(type) { this.type = type; } preventDefault() {} };
`;

test('signals of the embedder are spoken to by their own members', () => {
  const { AbortController, AbortSignal, DOMException, hooks } = open(`${SIGNALS_OF_A_SCRIPT}
    globalThis.AbortSignal = class AbortSignal extends EventTarget {
      #reason;
      get aborted() { return this.#reason !== undefined; }
      get reason() { return this.#reason === 'none' ? undefined : this.#reason; }
      static abort(reason) { const signal = new AbortSignal(); signal.#reason = reason; return signal; }
      static run(signal, reason) { signal.#reason = reason; signal.dispatchEvent(new Event('abort')); }
    };
    globalThis.AbortController = class AbortController {
      signal = new AbortSignal();
      abort(reason) { AbortSignal.run(this.signal, reason); }
    };
  `);
  const controller = new AbortController();
  const { signal } = controller;
  AbortSignal.prototype.addEventListener = undefined;
  ok(hooks.isSignal(signal), 'a signal');
  for (const other of [undefined, 1, {}, Object.create(signal), new Proxy(signal, {}), AbortSignal.prototype]) same(hooks.isSignal(other), false, 'a stranger');
  ok(hooks.isSignal(Object.setPrototypeOf(new AbortController().signal, null)), 'a signal without its prototype');
  let calls = 0;
  hooks.add(signal, (...args) => (calls += 1 + args.length));
  hooks.remove(signal, hooks.add(signal, () => calls++));
  same(signal.listeners, 1, 'the number of listeners');
  controller.abort('why');
  equal([calls, hooks.aborted(signal), hooks.reason(signal), signal.listeners], [1, true, 'why', 0], 'afterwards');
  same(hooks.add(signal, () => {}), undefined, 'what is added to a signal that has aborted');
  const reason = hooks.reason(AbortSignal.abort('none'));
  ok(reason instanceof DOMException && reason.name === 'AbortError', 'the reason where theirs have none');
});

test('signals that a script has made without brands are known by their prototype', () => {
  const { AbortSignal, hooks } = open(`${SIGNALS_OF_A_SCRIPT}
    globalThis.AbortSignal = class AbortSignal extends EventTarget { aborted = false; };
  `);
  ok(hooks.isSignal(new AbortSignal()), 'a signal');
  same(hooks.isSignal({ aborted: false }), false, 'a stranger');
});

test('signals are targets of the embedder, where there are such', () => {
  const { AbortController, AbortSignal, EventTarget, hooks } = open(SIGNALS_OF_A_SCRIPT);
  const controller = new AbortController();
  const { signal } = controller;
  ok(signal instanceof EventTarget && signal instanceof AbortSignal && hooks.isSignal(signal), 'a signal');
  const order = [];
  signal.addEventListener('abort', () => order.push('listener'));
  signal.onabort = () => order.push('handler');
  hooks.add(signal, () => order.push('algorithm'));
  const dependent = AbortSignal.any([signal]);
  hooks.add(dependent, () => order.push('dependent'));
  controller.abort();
  equal(order, ['algorithm', 'listener', 'handler', 'dependent'], 'the order');
});

test('the DOMException of the embedder stays as it is', () => {
  const { DOMException, AbortController, hooks } = open('globalThis.DOMException = class extends Error { constructor(m, n) { super(m); this.name = n; } }; globalThis.own = DOMException');
  same(hooks.DOMException, DOMException, 'the hook');
  const controller = new AbortController();
  controller.abort();
  ok(controller.signal.reason instanceof DOMException, 'the reason');
});
