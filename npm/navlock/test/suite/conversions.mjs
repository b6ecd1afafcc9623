// Rules 20 and 21: how WebIDL converts arguments, and that every failure is a rejection.

import { answersWithPromise, equal, ok, rejection, rejectsWithTypeError, same } from '../kit/assert.mjs';
import { test } from '../kit/test.mjs';

const nothing = () => {};
const OPERATION = 'https://webidl.spec.whatwg.org/#js-operations';
const DICTIONARY = 'https://webidl.spec.whatwg.org/#js-dictionary';

const WRONG = [
  ['no arguments', (locks) => locks.request()],
  ['a name alone', (locks) => locks.request('db')],
  ['no callback', (locks) => locks.request('db', {})],
  ['null for a callback', (locks) => locks.request('db', null)],
  ['undefined for a callback behind options', (locks) => locks.request('db', {}, undefined)],
  ['an object for a callback', (locks) => locks.request('db', {}, {})],
  ['a Symbol as a name', (locks) => locks.request(Symbol('db'), nothing)],
  ['an object without primitive as a name', (locks) => locks.request(Object.create(null), nothing)],
  ['a string for options', (locks) => locks.request('db', 'shared', nothing)],
  ['a number for options', (locks) => locks.request('db', 1, nothing)],
  ['a boolean for options', (locks) => locks.request('db', false, nothing)],
  ['a Symbol for options', (locks) => locks.request('db', Symbol('db'), nothing)],
  ['a BigInt for options', (locks) => locks.request('db', 1n, nothing)],
  ['an unknown mode', (locks) => locks.request('db', { mode: 'none' }, nothing)],
  ['a mode in capitals', (locks) => locks.request('db', { mode: 'Shared' }, nothing)],
  ['null for a mode', (locks) => locks.request('db', { mode: null }, nothing)],
  ['a Symbol for a mode', (locks) => locks.request('db', { mode: Symbol('shared') }, nothing)],
  ['null for a signal', (locks) => locks.request('db', { signal: null }, nothing)],
  ['an object for a signal', (locks) => locks.request('db', { signal: {} }, nothing)],
  ['a proxy of a signal', (locks) => locks.request('db', { signal: new Proxy(new AbortController().signal, {}) }, nothing)],
  ['what inherits from a signal', (locks) => locks.request('db', { signal: Object.create(new AbortController().signal) }, nothing)],
  ['a look-alike for a signal', (locks) => locks.request('db', { signal: Object.create(AbortSignal.prototype) }, nothing)],
];

for (const [what, call] of WRONG) {
  test(`a TypeError is a rejection, never thrown: ${what}`, {
    rules: [20, 21], spec: OPERATION,
  }, async ({ locks }) => {
    await rejectsWithTypeError(answersWithPromise(() => call(locks), what), what);
    const { held, pending } = await locks.query();
    same(held.length + pending.length, 0, 'the number of locks and requests');
  });
}

test('a foreign this is a rejection, and nothing is converted for it', {
  rules: [20, 22], spec: OPERATION,
}, async ({ locks }) => {
  const { request, query } = Object.getPrototypeOf(locks);
  const name = { toString: () => ok(false, 'the name was converted for a foreign this') };
  for (const [what, self] of [['undefined', undefined], ['an object', {}], ['a prototype', Object.getPrototypeOf(locks)]]) {
    await rejectsWithTypeError(answersWithPromise(() => request.call(self, name, nothing), what), `request of ${what}`);
    await rejectsWithTypeError(answersWithPromise(() => query.call(self), what), `query of ${what}`);
  }
});

test('the error that an option getter throws is the reason of a rejection', {
  rules: [20, 21], spec: DICTIONARY,
}, async ({ locks }) => {
  for (const member of ['ifAvailable', 'mode', 'signal', 'steal']) {
    const error = new Error('as planned');
    const options = { get [member]() { throw error; } };
    const promise = answersWithPromise(() => locks.request('db', options, nothing), member);
    same(await rejection(promise, member), error, `the reason, of ${member}`);
  }
});

test('the error that the conversion of a name throws is the reason of a rejection', {
  rules: [20, 21], spec: OPERATION,
}, async ({ locks }) => {
  const error = { any: 'value' };
  const name = { toString() { throw error; } };
  same(await rejection(answersWithPromise(() => locks.request(name, nothing), 'request'), 'request'), error, 'the reason');
});

test('members are read once, in the order of the alphabet, between name and callback', {
  rules: [21], spec: DICTIONARY,
}, async ({ locks }) => {
  const events = [];
  const name = { toString: () => (events.push('name'), 'db') };
  const mode = { toString: () => (events.push('mode to string'), 'shared') };
  const options = {
    get steal() { events.push('steal'); return false; },
    get signal() { events.push('signal'); return undefined; },
    get mode() { events.push('mode'); return mode; },
    get ifAvailable() { events.push('ifAvailable'); return false; },
  };
  same(await locks.request(name, options, (lock) => lock.mode), 'shared', 'the mode of the lock');
  equal(events, ['name', 'ifAvailable', 'mode', 'mode to string', 'signal', 'steal'], 'what was read, in order');
  events.length = 0;
  await rejectsWithTypeError(locks.request(name, options, 'no function'), 'no callback');
  equal(events, ['name', 'ifAvailable', 'mode', 'mode to string', 'signal', 'steal'], 'what was read before the callback');
});

test('reading stops at the first member that fails', { rules: [21], spec: DICTIONARY }, async ({ locks }) => {
  const events = [];
  const options = {
    get ifAvailable() { events.push('ifAvailable'); return false; },
    get mode() { events.push('mode'); return 'none'; },
    get signal() { events.push('signal'); return undefined; },
  };
  await rejectsWithTypeError(locks.request('db', options, nothing), 'an unknown mode');
  equal(events, ['ifAvailable', 'mode'], 'what was read');
});

test('options are read when the request is made, not later', { rules: [21], spec: DICTIONARY }, async ({ locks, hold }) => {
  await hold('db', { mode: 'shared' }).granted;
  const options = { mode: 'shared' };
  const request = locks.request('db', options, (lock) => lock.mode);
  options.mode = 'exclusive';
  same(await request, 'shared', 'the mode of the lock');
});

test('inherited and unknown members count as WebIDL says', { rules: [21], spec: DICTIONARY }, async ({ locks }) => {
  const inherited = Object.create({ mode: 'shared' });
  same(await locks.request('db', inherited, (lock) => lock.mode), 'shared', 'the mode, inherited');
  same(await locks.request('db', { unknown: true }, (lock) => lock.mode), 'exclusive', 'the mode, beside an unknown member');
  same(await locks.request('db', Object.assign(() => {}, { mode: 'shared' }), (lock) => lock.mode), 'shared', 'the mode, of a function');
  same(await locks.request('db', [], (lock) => lock.mode), 'exclusive', 'the mode, of an array');
});

test('no options, null and undefined mean the defaults', { rules: [21], spec: DICTIONARY }, async ({ locks }) => {
  const mode = (lock) => lock.mode;
  same(await locks.request('db', mode), 'exclusive', 'the mode without options');
  for (const options of [undefined, null, {}]) {
    same(await locks.request('db', options, mode), 'exclusive', `the mode with ${options}`);
  }
  const absent = { mode: undefined, ifAvailable: undefined, steal: undefined, signal: undefined };
  same(await locks.request('db', absent, mode), 'exclusive', 'the mode with members that are undefined');
});

test('with two arguments the second is the callback', { rules: [21], spec: OPERATION }, async ({ locks }) => {
  const callback = Object.assign((lock) => lock.mode, { mode: 'shared' });
  same(await locks.request('db', callback), 'exclusive', 'the mode of the lock');
});

test('further arguments are ignored', { rules: [21], spec: OPERATION }, async ({ locks }) => {
  same(await locks.request('db', {}, (lock) => lock.name, () => 'other'), 'db', 'the value');
});

test('booleans are what ToBoolean makes of them', { rules: [21], spec: 'https://webidl.spec.whatwg.org/#js-boolean' }, async ({ hold, locks }) => {
  await hold('db').granted;
  for (const truthy of [1, 'false', {}, []]) {
    const given = await locks.request('db', { ifAvailable: truthy }, (lock) => lock);
    same(given, null, `what the callback is given with ifAvailable ${JSON.stringify(truthy)}`);
  }
  for (const falsy of [0, '', null, NaN, 0n]) {
    const given = await locks.request('free', { ifAvailable: falsy, steal: falsy, signal: new AbortController().signal }, (lock) => lock.name);
    same(given, 'free', `the name with ifAvailable and steal ${String(falsy)}`);
  }
});

test('names are converted to strings', { rules: [21], spec: 'https://webidl.spec.whatwg.org/#js-DOMString' }, async ({ locks }) => {
  const name = (lock) => lock.name;
  same(await locks.request(1, name), '1', 'of 1');
  same(await locks.request(null, name), 'null', 'of null');
  same(await locks.request(undefined, name), 'undefined', 'of undefined');
  same(await locks.request(1n, name), '1', 'of 1n');
  same(await locks.request({ toString: () => 'db', valueOf: () => 'other' }, name), 'db', 'of an object');
  same(await locks.request(['a', 'b'], name), 'a,b', 'of an array');
  const reason = await rejection(locks.request(-1, name), 'of -1');
  same(reason.name, 'NotSupportedError', 'the reason, of -1');
});

test('entries of a snapshot list their members in the order of the alphabet', {
  rules: [21, 30], spec: DICTIONARY,
}, async ({ hold, locks }) => {
  await hold('db').granted;
  hold('db');
  const state = await locks.query();
  equal(Object.keys(state), ['held', 'pending'], 'the members of the snapshot');
  equal(Object.keys(state.held[0]), ['clientId', 'mode', 'name'], 'the members of a held entry');
  equal(Object.keys(state.pending[0]), ['clientId', 'mode', 'name'], 'the members of a pending entry');
});
