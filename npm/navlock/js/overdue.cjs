'use strict';
// What has taken longer than a time.

const { Map, mapDelete, mapFirst, mapSet, now, setTimeout } = require('./primordials.cjs');

/** By how many milliseconds a look is late, and how long it takes to the next one. */
const LATE_MS = 100;

/** A timer keeps the context that has set it, as that of a test file, also when nothing is left to be told. */
const LONGEST_MS = 5000;

class Overdue {
  /** When each was added: in the order of time. */
  #since = new Map();
  #ms;
  #tell;
  #isExact;
  #isTimerSet = false;
  #lookAt = 0;

  /**
   * @param {number} ms
   * @param {(item: object, ms: number) => void} tell  called once for each item that is still there
   * @param {boolean} [isExact]  not for what an item has only because the process was stopped or did something
   *   else: what would have taken it away may be on its way
   */
  constructor(ms, tell, isExact = false) {
    this.#ms = ms;
    this.#tell = tell;
    this.#isExact = isExact;
  }

  add(item) {
    mapSet(this.#since, item, now());
    if (!this.#isTimerSet) this.#setTimer(this.#ms);
  }

  /** Nothing if it is not there (any more). */
  delete(item) {
    mapDelete(this.#since, item);
  }

  /** One for all. It keeps no process alive. */
  #setTimer(ms) {
    this.#isTimerSet = true;
    const wait = ms < LONGEST_MS ? ms : LONGEST_MS;
    this.#lookAt = now() + wait;
    setTimeout(this.#look, Math.ceil(wait)).unref();
  }

  #look = () => {
    this.#isTimerSet = false;
    if (this.#isExact && now() - this.#lookAt > LATE_MS) return this.#setTimer(LATE_MS);
    for (let first; (first = mapFirst(this.#since)) !== undefined; ) {
      const item = first[0];
      const passed = now() - first[1];
      if (passed < this.#ms) return this.#setTimer(this.#ms - passed);
      mapDelete(this.#since, item);
      this.#tell(item, Math.round(passed));
    }
  };
}

module.exports = { Overdue };
