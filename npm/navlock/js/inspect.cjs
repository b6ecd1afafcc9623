'use strict';
// What a program can learn of a lock beyond the standard. The standard's objects stay as they are.

const { AbortController, DOMException, controllerAbort, controllerSignal } = require('./primordials.cjs');
const { haveOthersHeld, noteUse } = require('./holders.cjs');
const { requestOf } = require('./lock.cjs');

class Inspection {
  #controller = new AbortController();
  #hasEnded = false;

  /** @param {import('./requests.cjs').LockRequest} request  that is held */
  constructor(request) {
    const { manager, realm } = request;
    this.lost = controllerSignal(this.#controller);
    this.fencingToken = realm.fencingToken(request);
    this.changed = haveOthersHeld(request, this.fencingToken);
    this.clientId = realm.clientId(manager.number);
    this.bucket = realm.bucket(manager.number);
  }

  /** The callback has ended while the lock was held. Only the first call counts. */
  onEnd(request, hasFailed) {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (!hasFailed) noteUse(request, this.fencingToken);
  }

  onLost(reason) {
    controllerAbort(this.#controller, reason);
  }
}

Object.setPrototypeOf(Inspection.prototype, null);

/** Throws an InvalidStateError if `lock` is over, unless it was inspected while it was held. */
function inspect(lock) {
  const request = requestOf(lock);
  if (request.inspection === null) {
    if (!request.isHeld) {
      throw new DOMException(`the lock "${request.name}" is not held any more, and was not inspected while it was`, 'InvalidStateError');
    }
    request.inspection = new Inspection(request);
  }
  const { bucket, changed, clientId, fencingToken, lost } = request.inspection;
  return { bucket, changed, clientId, fencingToken, lost };
}

module.exports = { inspect };
