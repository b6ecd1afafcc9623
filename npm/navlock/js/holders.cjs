'use strict';
// Whether anybody else has held a name since this thread had it last, as fencing tokens tell it.
//
// A token is greater than all earlier ones of its bucket, of whatever name: nobody remembers a name that is
// neither held nor waited for. So two tokens in a row are the only proof that nothing was granted
// between them. Where there is none, somebody may have held the name, and that is the answer.
//
// Where locks have leases, on etcd, a token is a revision and 20 bits behind it: 0 for what etcd has granted, and from
// 1 on what a machine grants that keeps the name since that revision. Nothing is between two that one machine has
// counted in a row, nor between a revision and the next one, be that granted by etcd or the first that is counted
// since. But who was counted last, before a name was given up in the next revision, is not known.

const { Map, WeakMap, mapDelete, mapFirst, mapGet, mapSet, weakMapGet, weakMapSet } = require('./primordials.cjs');

/** Of how many names for each bucket it is known which token they had last here. */
const MOST_NAMES = 1024;

/** By lock manager: tokens by name. */
const tokens = new WeakMap();

/** The numbers of a token that are counted within a revision of etcd. */
const COUNTED = 0xfffffn;

/** Whether nothing can have been granted between these two. */
function areInARow(last, token, { manager, realm }) {
  if (token === last + 1n) return true;
  // Without a lease each token is one more, whatever its bits are.
  const isFirst = token === last + COUNTED + 1n || token === last + COUNTED + 2n;
  return isFirst && (last & COUNTED) === 0n && realm.hasLease(manager.number);
}

/**
 * Whether anybody else may have held the name of this lock since what {@link noteUse} was told last. Until it
 * is told of this one nothing is known of the name.
 *
 * @param {import('./requests.cjs').LockRequest} request  that is held
 * @param {bigint} token  of it
 */
function haveOthersHeld(request, token) {
  const { manager, name } = request;
  const ofManager = weakMapGet(tokens, manager);
  if (ofManager === undefined) return true;
  const last = mapGet(ofManager, name);
  mapDelete(ofManager, name);
  return last === undefined || !areInARow(last, token, request);
}

/**
 * The callback of a lock has ended as it should, and so this thread knows how it has left things. One that has
 * failed may not have looked at what others did before it.
 */
function noteUse({ isShared, manager, name }, token) {
  // Not of a shared lock: it says nothing of those who hold the name beside us, and longer.
  if (isShared) return;
  let ofManager = weakMapGet(tokens, manager);
  if (ofManager === undefined) weakMapSet(tokens, manager, (ofManager = new Map()));
  mapSet(ofManager, name, token);
  if (ofManager.size > MOST_NAMES) mapDelete(ofManager, mapFirst(ofManager)[0]);
}

module.exports = { haveOthersHeld, noteUse };
