// The assertions of the tests of the script DOM. A `TypeError` is recognised by its name, because a test may run
// in another realm than the one that it tests.

export class Failure extends Error {}

export function ok(value, what) {
  if (!value) throw new Failure(`${what}: this does not hold`);
}

export function same(found, wanted, what) {
  if (!Object.is(found, wanted)) throw new Failure(`${what}: ${String(wanted)} was expected, ${String(found)} was found`);
}

/** Asserts that both are the same plain data. */
export function equal(found, wanted, what) {
  const text = (value) => JSON.stringify(value, (_, member) => (member === undefined ? 'undefined' : member));
  if (text(found) !== text(wanted)) throw new Failure(`${what}: ${text(wanted)} was expected, ${text(found)} was found`);
}

export function throwsTypeError(call, what) {
  const error = thrownBy(call, what);
  ok(Object.prototype.toString.call(error) === '[object Error]' && error.name === 'TypeError', `${what}: a TypeError, and not ${String(error)}`);
}

export function throwsDOMException(call, name, what) {
  const error = thrownBy(call, what);
  ok(Object.prototype.toString.call(error) === '[object DOMException]' && error.name === name, `${what}: ${name}, and not ${String(error)}`);
}

function thrownBy(call, what) {
  try {
    call();
  } catch (error) {
    return error;
  }
  throw new Failure(`${what}: nothing was thrown`);
}
