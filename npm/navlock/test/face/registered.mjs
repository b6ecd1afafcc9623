// A program that looks at what `navlock/register` has installed, and prints it.

import * as threads from 'node:worker_threads';

import { locks } from '../../js/index.mjs';

const { isMainThread, parentPort, Worker } = threads;
if (isMainThread) console.log(JSON.stringify(await look()));
else parentPort.postMessage(globalThis.navigator?.locks === locks);

async function look() {
  const { navigator } = globalThis;
  const holder = Object.hasOwn(navigator, 'locks') ? navigator : Object.getPrototypeOf(navigator);
  const { get, enumerable, configurable } = Object.getOwnPropertyDescriptor(holder, 'locks');
  return {
    locks: navigator.locks === locks && locks instanceof LockManager,
    attribute: { enumerable, configurable, isAccessor: get?.name === 'get locks' },
    globals: ['LockManager', 'Lock'].map(shape),
    isReadOnly: throwsTypeError(() => (navigator.locks = {})),
    isBranded: throwsTypeError(() => Reflect.apply(get, {}, [])),
    leaks: 'locks' in {},
    inModules: [threads.locks, threads.default.locks].every((found) => found === undefined || found === locks),
    hasUserAgent: typeof navigator.userAgent === 'string',
    granted: await navigator.locks.request('db', (lock) => lock instanceof Lock && lock.name),
    inWorker: await new Promise((resolve, reject) => {
      new Worker(new URL(import.meta.url)).on('message', resolve).on('error', reject);
    }),
  };
}

function shape(name) {
  const { writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(globalThis, name);
  return [writable && 'writable', enumerable && 'enumerable', configurable && 'configurable'].filter(Boolean).join(' ');
}

function throwsTypeError(call) {
  try {
    call();
    return false;
  } catch (error) {
    return error instanceof TypeError;
  }
}
