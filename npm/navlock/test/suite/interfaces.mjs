// Rule 22: the interface objects, as WebIDL makes them.

import { answersWithPromise, equal, isDOMException, ok, same, throwsTypeError } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';

const INTERFACE = 'https://webidl.spec.whatwg.org/#interface-object';
const ATTRIBUTE = 'https://webidl.spec.whatwg.org/#define-the-attributes';

/** `writable`, `enumerable` and `configurable`, or `accessor` for the first. */
function shape(object, property) {
  const descriptor = Object.getOwnPropertyDescriptor(object ?? {}, property);
  if (!descriptor) return 'no own property';
  const first = 'value' in descriptor ? (descriptor.writable ? 'writable' : 'constant') : descriptor.set ? 'accessor' : 'getter';
  return [first, descriptor.enumerable && 'enumerable', descriptor.configurable && 'configurable'].filter(Boolean).join(' ');
}

for (const name of ['LockManager', 'Lock']) {
  test(`${name} is a global property as WebIDL defines it`, { rules: [22], spec: INTERFACE }, async (context) => {
    same(shape(globalThis, name), 'writable configurable', `the property ${name}`);
    same(globalThis[name], context[name], `the global ${name}`);
  });

  test(`${name} is an interface object`, { rules: [22], spec: INTERFACE }, async (context) => {
    const object = context[name];
    same(typeof object, 'function', `the type of ${name}`);
    same(object.name, name, 'its name');
    same(object.length, 0, 'its length');
    same(shape(object, 'prototype'), 'constant', 'its prototype property');
    same(shape(object.prototype, 'constructor'), 'writable configurable', 'the constructor property of its prototype');
    same(object.prototype.constructor, object, 'the constructor of its prototype');
    same(Object.getPrototypeOf(object), Function.prototype, 'what it inherits from');
    same(Object.getPrototypeOf(object.prototype), Object.prototype, 'what its prototype inherits from');
  });

  test(`${name} can be neither constructed nor called`, { rules: [22], spec: INTERFACE }, async (context) => {
    const object = context[name];
    same(typeof object, 'function', `the type of ${name}`);
    throwsTypeError(() => new object(), `new ${name}()`);
    throwsTypeError(() => object(), `${name}()`);
    throwsTypeError(() => Reflect.construct(object, [], Object), `a construction of ${name} for another target`);
    throwsTypeError(() => new (class extends object {})(), `a class that extends ${name}`);
  });

  test(`${name} is tagged`, { rules: [22], spec: INTERFACE }, async (context) => {
    const { prototype } = context[name] ?? {};
    same(prototype?.[Symbol.toStringTag], name, 'the tag of the prototype');
    same(shape(prototype, Symbol.toStringTag), 'constant configurable', 'the property of the tag');
  });
}

test('lock managers and locks are instances that have nothing of their own', {
  rules: [22], spec: INTERFACE,
}, async ({ hold, Lock, LockManager, locks }) => {
  const lock = await hold('db').granted;
  same(typeof LockManager, 'function', 'the type of LockManager');
  same(Object.getPrototypeOf(locks), LockManager.prototype, 'what the lock manager inherits from');
  same(Object.getPrototypeOf(lock), Lock.prototype, 'what the lock inherits from');
  same(Object.prototype.toString.call(locks), '[object LockManager]', 'the lock manager as a string');
  same(Object.prototype.toString.call(lock), '[object Lock]', 'the lock as a string');
  equal(Reflect.ownKeys(locks).map(String), [], 'what the lock manager has of its own');
  equal(Reflect.ownKeys(lock).map(String), [], 'what the lock has of its own');
});

test('request and query are operations', {
  rules: [22], spec: 'https://webidl.spec.whatwg.org/#define-the-operations',
}, async ({ locks }) => {
  const prototype = Object.getPrototypeOf(locks);
  for (const [name, length] of [['request', 2], ['query', 0]]) {
    same(shape(prototype, name), 'writable enumerable configurable', `the property ${name}`);
    same(prototype[name].name, name, `the name of ${name}`);
    same(prototype[name].length, length, `the length of ${name}`);
    throwsTypeError(() => new prototype[name](), `new ${name}()`);
  }
});

test('LockManager has nothing beside its operations', {
  rules: [22], spec: '#api-lock-manager',
}, async ({ locks }) => {
  const own = Reflect.ownKeys(Object.getPrototypeOf(locks)).map(String).sort();
  equal(own, ['Symbol(Symbol.toStringTag)', 'constructor', 'query', 'request'], 'what the prototype has of its own');
});

test('Lock has nothing beside its attributes', { rules: [22], spec: '#api-lock' }, async ({ hold }) => {
  // Without the properties that runtimes put on their own interfaces, by which they print objects.
  const isOfRuntimes = (key) => key === Symbol.for('nodejs.util.inspect.custom');
  const keys = Reflect.ownKeys(Object.getPrototypeOf(await hold('db').granted));
  const own = keys.filter((key) => !isOfRuntimes(key)).map(String).sort();
  equal(own, ['Symbol(Symbol.toStringTag)', 'constructor', 'mode', 'name'], 'what the prototype has of its own');
});

test('name and mode are enumerable accessors on the prototype', {
  rules: [22], spec: ATTRIBUTE,
}, async ({ hold }) => {
  const lock = await hold('db', { mode: 'shared' }).granted;
  const prototype = Object.getPrototypeOf(lock);
  for (const [attribute, value] of [['name', 'db'], ['mode', 'shared']]) {
    same(shape(prototype, attribute), 'getter enumerable configurable', `the property ${attribute}`);
    const { get } = Object.getOwnPropertyDescriptor(prototype, attribute);
    same(get.name, `get ${attribute}`, 'the name of the getter');
    same(get.length, 0, 'the length of the getter');
    same(lock[attribute], value, `the ${attribute} of the lock`);
  }
});

test('name and mode cannot be set', { rules: [22], spec: ATTRIBUTE }, async ({ hold }) => {
  const lock = await hold('db').granted;
  throwsTypeError(() => (lock.name = 'other'), 'setting name');
  throwsTypeError(() => (lock.mode = 'shared'), 'setting mode');
  same(lock.name, 'db', 'the name');
});

test('the getters of a lock take no foreign this', { rules: [22], spec: ATTRIBUTE }, async ({ hold }) => {
  const lock = await hold('db').granted;
  const prototype = Object.getPrototypeOf(lock);
  for (const attribute of ['name', 'mode']) {
    throwsTypeError(() => prototype[attribute], `${attribute} of the prototype`);
    throwsTypeError(() => Reflect.get(prototype, attribute, {}), `${attribute} of an object`);
    throwsTypeError(() => Object.create(lock)[attribute], `${attribute} of what inherits from a lock`);
  }
});

test('a lock keeps its name and mode when it is released', { rules: [22], spec: '#api-lock' }, async ({ locks }) => {
  let kept;
  await locks.request('db', { mode: 'shared' }, (lock) => {
    kept = lock;
  });
  same(kept.name, 'db', 'the name');
  same(kept.mode, 'shared', 'the mode');
});

test('neither lock managers nor locks can be cloned', {
  rules: [22], spec: 'https://html.spec.whatwg.org/multipage/structured-data.html#structuredserializeinternal', needs: ['refusal to clone'],
}, async ({ hold, locks }) => {
  const lock = await hold('db').granted;
  for (const [what, value] of [['a lock manager', locks], ['a lock', lock], ['a lock in an object', { lock }]]) {
    let thrown;
    try {
      structuredClone(value);
    } catch (error) {
      thrown = error;
    }
    ok(isDOMException(thrown, 'DataCloneError'), `${what}: a DataCloneError was expected`);
  }
});

test('navigator.locks is always the same object', { rules: [22], spec: '#navigator-mixins' }, async ({ locks }) => {
  same(navigator.locks, locks, 'navigator.locks');
  same(navigator.locks, navigator.locks, 'navigator.locks, read again');
});

test('properties that code adds to prototypes do not disturb requests', {
  rules: [22], spec: 'https://webidl.spec.whatwg.org/#js-promise',
}, async ({ locks }) => {
  const { then } = Promise.prototype;
  const { addEventListener } = EventTarget.prototype;
  let disturbed;
  try {
    EventTarget.prototype.addEventListener = () => (disturbed = 'addEventListener');
    Object.defineProperty(Object.prototype, 'steal', { configurable: true, get: () => undefined });
    const { signal } = new AbortController();
    const request = answersWithPromise(() => locks.request('db', { signal }, () => 'value'), 'request');
    same(await Reflect.apply(then, request, [(value) => value]), 'value', 'the value');
  } finally {
    EventTarget.prototype.addEventListener = addEventListener;
    delete Object.prototype.steal;
  }
  ok(!disturbed, `the request has called ${disturbed} of the page`);
});
