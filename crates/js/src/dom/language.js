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
// Where `global` has an AbortSignal already, the hooks use that one. They add a listener instead of an algorithm,
// because only the maker of a signal can give it algorithms.
//
// INVARIANT: what scripts change later does not matter. All that is used of the language is taken now; lists have
// no prototype; state is in private fields. So code outside of functions may use everything below this line, and
// code inside of functions nothing that looks up a prototype: no `for of`, no spread, no `push`, no `catch` of a
// promise.
//
// The files of this folder are one function, in the order of `dom.rs`: each file sees what the others declare.
// This file has what the others need of the language.

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

/** Reports an exception that nobody can catch, and goes on, whatever `report` does. */
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

    /** The state of `value`, or undefined if `value` is not such an object. */
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
    /** The state of the object that a member was called on. */
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
