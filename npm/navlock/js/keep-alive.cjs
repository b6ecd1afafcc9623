'use strict';
// Keeps the event loop running while requests and queries wait for an answer.

const { setImmediate } = require('./primordials.cjs');

class KeepAlive {
  /** @type {(on: boolean) => void} */
  #keep;

  #waiting = 0;

  #isKept = false;

  #isResting = false;

  /** @param {(on: boolean) => void} keep  as dear as a request each time */
  constructor(keep) {
    this.#keep = keep;
  }

  /** One more request or query waits. */
  start() {
    // In this order: where the stack is full, nobody waits, and nothing is said to be kept.
    if (!this.#isKept) {
      this.#keep(true);
      this.#isKept = true;
    }
    this.#waiting++;
  }

  /** One request or query less waits. The caller then calls {@link rest} or {@link restLater}. */
  stop() {
    this.#waiting--;
  }

  /** Lets the event loop end if nothing waits. */
  rest() {
    if (this.#waiting === 0 && this.#isKept) this.#keep((this.#isKept = false));
  }

  /** The same once it is known whether somebody else waits. */
  restLater() {
    if (this.#waiting > 0 || !this.#isKept || this.#isResting) return;
    setImmediate(KeepAlive.#rest, this);
    this.#isResting = true;
  }

  static #rest(keepAlive) {
    keepAlive.#isResting = false;
    keepAlive.rest();
  }
}

module.exports = { KeepAlive };
