// What the script defines where something is missing, and what it gives.

const hasEvents = isCallable(global.Event) && isCallable(global.EventTarget);
const hooks = isCallable(global.AbortSignal)
  ? adoptAbort(global.AbortSignal)
  : makeAbort(hasEvents ? adoptEvents(global.Event, global.EventTarget) : makeEvents());
// An embedder may have signals of its own and yet no events.
if (!hasEvents && isCallable(global.AbortSignal) && global.EventTarget === undefined) makeEvents();
