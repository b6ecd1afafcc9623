// The parts of the DOM that navlock-js defines, as scripts of this engine see them: runs the tests of
// crates/js/tests/dom. Prints a line for each test: its name, and its failure or null.

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
