// Defines the interfaces that are missing, and makes the hooks.

const hasEvents = isCallable(global.Event) && isCallable(global.EventTarget);
const hooks = isCallable(global.AbortSignal)
  ? adoptAbort(global.AbortSignal)
  : makeAbort(hasEvents ? adoptEvents(global.Event, global.EventTarget) : makeEvents());
// An embedder may have signals of its own and yet no events.
if (!hasEvents && isCallable(global.AbortSignal) && global.EventTarget === undefined) makeEvents();
