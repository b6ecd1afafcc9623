'use strict';
// Tells from fencing tokens whether anybody else may have held a name since this thread had it last.
//
// A token is greater than all earlier tokens of its bucket, for whatever name, because names that nobody holds
// or waits for are forgotten. So there is one proof only that nothing was granted between two grants: their
// tokens follow one another directly. Without this proof somebody may have held the name, and that is the
// answer.
//
// Where locks have leases, on etcd, a token consists of a revision and of 20 bits behind it. The 20 bits are 0
// for a lock that etcd has granted. A machine that owns the name since that revision counts its grants in them,
// from 1 on. So nothing was granted between two tokens that one machine has counted in a row. Nor was anything
// granted between a grant of etcd and a grant of the next revision, which is etcd's or the first that a machine
// has counted since. But if the earlier token was counted, others may have been counted after it, before the
// next revision.

const { Map, WeakMap, mapDelete, mapFirst, mapGet, mapSet, weakMapGet, weakMapSet } = require('./primordials.cjs');

/** For how many names of each bucket the last token is remembered. */
const MOST_NAMES = 1024;

/** For each lock manager, the last token of each name. */
const tokens = new WeakMap();

/** The 20 bits of a token in which grants within a revision of etcd are counted. */
const COUNTED = 0xfffffn;

/** Whether nothing can have been granted between these two tokens. */
function areInARow(last, token, { manager, realm }) {
  if (token === last + 1n) return true;
  // Only where locks have leases do the last 20 bits mean something.
  const isFirst = token === last + COUNTED + 1n || token === last + COUNTED + 2n;
  return isFirst && (last & COUNTED) === 0n && realm.hasLease(manager.number);
}

/**
 * Whether anybody else may have held the name of this lock since the last call of {@link noteUse} for the name. This
 * forgets that call: until the next one, nothing is known of the name.
 *
 * @param {import('./requests.cjs').LockRequest} request  whose lock is held
 * @param {bigint} token  of this lock
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
 * Notes that the callback of a lock has ended without an error, so this thread knows in which state it has left
 * whatever the lock protects. A callback that has failed may not even have looked at what others did before it.
 */
function noteUse({ isShared, manager, name }, token) {
  // Not for a shared lock: others may hold it beside us, and longer.
  if (isShared) return;
  let ofManager = weakMapGet(tokens, manager);
  if (ofManager === undefined) weakMapSet(tokens, manager, (ofManager = new Map()));
  mapSet(ofManager, name, token);
  if (ofManager.size > MOST_NAMES) mapDelete(ofManager, mapFirst(ofManager)[0]);
}

module.exports = { haveOthersHeld, noteUse };
