'use strict';
// What there is to know of a lock beyond the standard, beside the standard's objects.

const { requestOf } = require('./lock.cjs');
const { inspectRequest } = require('./requests.cjs');

/** Throws an InvalidStateError if `lock` is over, unless it was inspected while it was held. */
function inspect(lock) {
  return inspectRequest(requestOf(lock));
}

module.exports = { inspect };
