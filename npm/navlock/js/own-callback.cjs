'use strict';
// Finds the callbacks in which a request is made, by asynchronous context.

const { AsyncLocalStorage } = require('node:async_hooks');

/**
 * Callbacks that have begun, from the innermost to the outermost.
 *
 * @typedef {object} Inside
 * @property {import('./followed.cjs').Followed} holder  whose callback it is
 * @property {Inside | undefined} outer
 */

/** `null` until it is needed: on some runtimes it slows down each promise of the process. */
let storage = null;

/**
 * Calls `call` in the asynchronous context of these requests' callbacks.
 *
 * @param {import('./followed.cjs').Followed[]} holders
 */
function callInside(holders, call) {
  storage ??= new AsyncLocalStorage();
  let inside = holding(storage.getStore());
  for (let index = 0; index < holders.length; index++) inside = { holder: holders[index], outer: inside };
  return storage.run(inside, call);
}

/**
 * The lock that blocks a request that is made now, if it is the lock of a callback in which the request is made.
 *
 * @returns {import('./followed.cjs').Followed | null}
 */
function heldOutside({ isShared, manager, name }) {
  for (let at = holding(storage?.getStore()); at !== undefined; at = at.outer) {
    const { request } = at.holder;
    if (request.name === name && request.manager === manager && !(isShared && request.isShared)) return at.holder;
  }
  return null;
}

/** The requests in whose callbacks a request is made now, from the innermost to the outermost. */
function holdersOutside() {
  const holders = [];
  for (let at = holding(storage?.getStore()); at !== undefined; at = at.outer) holders.push(at.holder);
  return holders;
}

/**
 * The requests that still hold their lock. The others are forgotten: a context lives for as long as anything that was
 * begun in it, and a program may for ever begin the next callback in the context of the last one.
 */
function holding(inside) {
  while (inside !== undefined && !inside.holder.isHolding) inside = inside.outer;
  for (let at = inside; at !== undefined; at = at.outer) {
    while (at.outer !== undefined && !at.outer.holder.isHolding) at.outer = at.outer.outer;
  }
  return inside;
}

module.exports = { callInside, heldOutside, holdersOutside };
