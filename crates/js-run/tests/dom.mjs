// What navlock-js defines of the DOM, as scripts of this engine see it: the tests of crates/js/tests/dom.
// Prints a line for each: its name, and what was wrong.

import events from '../../js/tests/dom/events.mjs';
import signals from '../../js/tests/dom/signals.mjs';

for (const [name, run] of Object.entries({ ...events, ...signals })) {
  const errors = [];
  runtime.onReport((error) => errors.push(error));
  let failure = null;
  try {
    await run({ ...globals(), reported: () => errors });
  } catch (error) {
    failure = String(error);
  }
  console.log(JSON.stringify({ name, failure }));
}

function globals() {
  const { AbortController, AbortSignal, DOMException, Error, Event, EventTarget, TypeError } = globalThis;
  return { AbortController, AbortSignal, DOMException, Error, Event, EventTarget, TypeError, globalThis };
}
