// Assertions. They are written here because the suite also runs where there is no node:assert.

export class Failure extends Error {
  name = 'Failure';
}

/** @param {unknown} value  anything that can be thrown, too */
export function describe(value) {
  if (value instanceof Failure) return value.message;
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'function') return `function ${value.name}`;
  if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? '-0' : String(value);
  if (value instanceof Error || isDOMException(value)) return `${value.name}: ${value.message}`;
  try {
    return JSON.stringify(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}

export function fail(what) {
  throw new Failure(what);
}

export function ok(value, what) {
  if (!value) fail(what);
}

/** Asserts that both are the same value (`Object.is`). */
export function same(actual, expected, what) {
  if (!Object.is(actual, expected)) {
    fail(`${what}: ${describe(expected)} was expected, ${describe(actual)} was found`);
  }
}

/** Asserts that both are equal plain data. */
export function equal(actual, expected, what) {
  const [found, wanted] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (found !== wanted) fail(`${what}: ${wanted} was expected, ${found} was found`);
}

/**
 * Waits until `promise` is rejected.
 *
 * @returns {Promise<unknown>} the reason
 */
export async function rejection(promise, what) {
  let value;
  try {
    value = await promise;
  } catch (reason) {
    return reason;
  }
  return fail(`${what}: a rejection was expected, it was fulfilled with ${describe(value)}`);
}

/** Asserts a rejection with a TypeError of this realm, as a conversion of WebIDL makes it. */
export async function rejectsWithTypeError(promise, what) {
  const reason = await rejection(promise, what);
  ok(reason instanceof TypeError, `${what}: a TypeError was expected, not ${describe(reason)}`);
}

export async function rejectsWithDOMException(promise, name, what) {
  const reason = await rejection(promise, what);
  ok(isDOMException(reason, name), `${what}: the DOMException ${name} was expected, not ${describe(reason)}`);
}

export function isDOMException(value, name = value?.name) {
  return typeof DOMException === 'function' && value instanceof DOMException && value.name === name;
}

/** Asserts that a function returns a promise, whatever happens. */
export function answersWithPromise(call, what) {
  let promise;
  try {
    promise = call();
  } catch (error) {
    fail(`${what}: it threw ${describe(error)} instead of answering with a rejected promise`);
  }
  ok(promise instanceof Promise, `${what}: it did not answer with a promise but with ${describe(promise)}`);
  return promise;
}

export function throwsTypeError(call, what) {
  try {
    call();
  } catch (error) {
    ok(error instanceof TypeError, `${what}: a TypeError was expected, not ${describe(error)}`);
    return;
  }
  fail(`${what}: it did not throw`);
}
