// Waits for events. Nothing here waits for time to pass, except for deadlines.

import { Failure } from './assert.mjs';

/** `Promise.withResolvers`, which Node 20 does not have. */
export function deferred() {
  let resolve, reject;
  const promise = new Promise((fulfil, fail) => {
    resolve = fulfil;
    reject = fail;
  });
  promise.catch(() => {}); // whoever awaits it still sees the rejection
  return { promise, resolve, reject };
}

/** The promise's outcome, or a failure after `ms`. */
export async function withDeadline(promise, ms, what = 'nothing was decided') {
  const late = deferred();
  const timer = setTimeout(() => late.reject(new Failure(`${what} within ${ms} ms`)), ms);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Fulfilled after all microtasks that are queued now, and those that they queue. */
export function task() {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/** Fulfilled after `count` turns of the microtask queue. */
export async function microtasks(count) {
  for (let turn = 0; turn < count; turn++) await undefined;
}

/**
 * Blocks this thread until `done()` is true, for things that must happen elsewhere while this event loop stands still.
 */
export function spinUntil(done, what, ms = 3_000) {
  const end = Date.now() + ms;
  while (!done()) {
    if (Date.now() > end) throw new Failure(`${what} within ${ms} ms`);
  }
}

/** Fulfilled when `done()` is true, for things of which no event tells, such as shared memory. */
export async function until(done) {
  while (!done()) await task();
}
