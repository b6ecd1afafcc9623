import { setTimeout } from 'node:timers';

/** Fires after `ms`, if something else keeps the event loop running until then. */
export function unreferencedTimer(callback, ms) {
  setTimeout(callback, ms).unref();
}
