'use strict';
// The diagnostics channels of Node's own locks, with the same messages. Programs that trace requests subscribe to them.

const { channel } = require('node:diagnostics_channel');
const { queueMicrotask } = globalThis;

const start = channel('locks.request.start');
const grant = channel('locks.request.grant');
const miss = channel('locks.request.miss');
const end = channel('locks.request.end');

/** A request was made. Here and below, subscribers are code of the program. */
function tellStart({ mode, name }) {
  if (start.hasSubscribers) start.publish({ name, mode });
}

/** Its callback is about to be called. */
function tellCallback({ isHeld, mode, name }) {
  const told = isHeld ? grant : miss;
  if (told.hasSubscribers) told.publish({ name, mode });
}

/** Its promise is settled. This is told in a microtask, because the promise is settled in the middle of other work. */
function tellEnd(request, error) {
  if (end.hasSubscribers) queueMicrotask(() => publishEnd(request, error));
}

function publishEnd({ ifAvailable, mode, name, steal }, error) {
  end.publish({ name, mode, ifAvailable, steal, error });
}

module.exports = { tellCallback, tellEnd, tellStart };
