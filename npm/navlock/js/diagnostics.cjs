'use strict';
// The diagnostics channels of Node's own locks, with the same messages: what programs that trace
// requests subscribe to.

const { channel } = require('node:diagnostics_channel');
const { queueMicrotask } = globalThis;

const start = channel('locks.request.start');
const grant = channel('locks.request.grant');
const miss = channel('locks.request.miss');
const end = channel('locks.request.end');

/** A request has been made. Subscribers are code of others, here and below. */
function tellStart({ mode, name }) {
  if (start.hasSubscribers) start.publish({ name, mode });
}

/** Its callback is about to be called. */
function tellCallback({ isHeld, mode, name }) {
  const told = isHeld ? grant : miss;
  if (told.hasSubscribers) told.publish({ name, mode });
}

/** Its promise is settled. In a microtask, because that happens in the middle of other things. */
function tellEnd(request, error) {
  if (end.hasSubscribers) queueMicrotask(() => publishEnd(request, error));
}

function publishEnd({ ifAvailable, mode, name, steal }, error) {
  end.publish({ name, mode, ifAvailable, steal, error });
}

module.exports = { tellCallback, tellEnd, tellStart };
