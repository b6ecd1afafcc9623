'use strict';
// `Promise.withResolvers()`, which Node 20 does not have.

const { Promise } = require('./primordials.cjs');

let resolve;
let reject;

/**
 * FAST: one executor for all promises, instead of a closure for each. The constructor runs the executor before it
 * returns, so no other promise can come between.
 */
function executor(fulfil, fail) {
  resolve = fulfil;
  reject = fail;
}

/** @returns {{ promise: Promise<any>, resolve: (value?: unknown) => void, reject: (reason: unknown) => void }} */
function deferred() {
  const promise = new Promise(executor);
  return { promise, resolve, reject };
}

module.exports = { deferred };
