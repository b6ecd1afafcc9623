'use strict';
// In which callbacks a request is made, by asynchronous context.

const { AsyncLocalStorage } = require('node:async_hooks');

/**
 * Callbacks that have begun, from the innermost to the outermost.
 *
 * @typedef {object} Inside
 * @property {import('./followed.cjs').Followed} holder  whose callback it is
 * @property {Inside | undefined} outer
 */

/** `null` until it is wanted: on some runtimes it costs something at each promise of the process. */
let storage = null;

/**
 * Calls `call` as the callback that these requests have run.
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
 * The lock that stands in the way of a request that is made now, and that a callback holds in which it
 * is made.
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

/** All whose callbacks a request is made in now, from the innermost to the outermost. */
function holdersOutside() {
  const holders = [];
  for (let at = holding(storage?.getStore()); at !== undefined; at = at.outer) holders.push(at.holder);
  return holders;
}

/**
 * Those that still hold their lock. The others are forgotten: a context goes on as long as anything that
 * was begun in it, and a program may begin the next callback in that of the last one for ever.
 */
function holding(inside) {
  while (inside !== undefined && !inside.holder.isHolding) inside = inside.outer;
  for (let at = inside; at !== undefined; at = at.outer) {
    while (at.outer !== undefined && !at.outer.holder.isHolding) at.outer = at.outer.outer;
  }
  return inside;
}

module.exports = { callInside, heldOutside, holdersOutside };
