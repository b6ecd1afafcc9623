import { setTimeout } from 'node:timers';

/** Fires after `ms`, if anything else keeps the event loop going so long. */
export function unreferencedTimer(callback, ms) {
  setTimeout(callback, ms).unref();
}
