// Before `navlock/test`, in each file of a process: what the file before has had is taken back.

const assert = require('node:assert/strict');
const process = require('node:process');

// What all files of the process share, whichever way they are kept apart.
const shared = Object.getPrototypeOf(process);
const attribute = globalThis.navigator && Object.getOwnPropertyDescriptor(Object.getPrototypeOf(navigator), 'locks')?.get;
const state = [attribute, ...['LockManager', 'Lock'].map((name) => Object.hasOwn(globalThis, name))];
shared[Symbol.for('navlock as before')] ??= state;
shared[Symbol.for('navlock as before')].forEach((before, index) => assert.equal(state[index], before));
