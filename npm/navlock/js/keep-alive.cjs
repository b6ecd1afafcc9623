'use strict';
// Keeps the event loop running while requests and queries wait for an answer.

const { setImmediate } = require('./primordials.cjs');

class KeepAlive {
  /** @type {(on: boolean) => void} */
  #keep;

  #waiting = 0;

  #isKept = false;

  #isReleaseDue = false;

  /** @param {(on: boolean) => void} keep  costs as much as a request at each call */
  constructor(keep) {
    this.#keep = keep;
  }

  /** One more request or query waits. */
  start() {
    // In this order: if the stack is full, this throws before `#isKept` is set and before the request or query is
    // counted.
    if (!this.#isKept) {
      this.#keep(true);
      this.#isKept = true;
    }
    this.#waiting++;
  }

  /** One request or query fewer waits. The caller then calls {@link release} or {@link releaseLater}. */
  stop() {
    this.#waiting--;
  }

  /** Lets the event loop end if nothing waits. */
  release() {
    if (this.#waiting === 0 && this.#isKept) this.#keep((this.#isKept = false));
  }

  /** Does what {@link release} does, in a later task: by then it is known whether something else waits. */
  releaseLater() {
    if (this.#waiting > 0 || !this.#isKept || this.#isReleaseDue) return;
    setImmediate(KeepAlive.#release, this);
    this.#isReleaseDue = true;
  }

  static #release(keepAlive) {
    keepAlive.#isReleaseDue = false;
    keepAlive.release();
  }
}

module.exports = { KeepAlive };
