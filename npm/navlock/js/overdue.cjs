'use strict';
// Items that last longer than they should: held locks, or requests that wait.

const { Map, mapDelete, mapFirst, mapSet, now, setTimeout } = require('./primordials.cjs');

/** If the timer fires more than this many milliseconds late, the check is put off by the same time. */
const LATE_MS = 100;

/**
 * A timer keeps alive the context that has set it, such as that of a test file, even if nothing is left to tell. So no
 * timer is longer than this.
 */
const LONGEST_MS = 5000;

class Overdue {
  /** When each item was added, the oldest first. */
  #since = new Map();
  #ms;
  #tell;
  #isExact;
  #isTimerSet = false;
  #checkAt = 0;

  /**
   * @param {number} ms
   * @param {(item: object, ms: number) => void} tell  called once for each item that is still there after `ms`
   * @param {boolean} [isExact]  whether a late check is put off: if the process was stopped or busy, the
   *   event that removes the item may be on its way already
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

  /** Removes the item, if it is still there. */
  delete(item) {
    mapDelete(this.#since, item);
  }

  /** Sets the timer, of which there is one for all items. It does not keep the process alive. */
  #setTimer(ms) {
    this.#isTimerSet = true;
    const wait = ms < LONGEST_MS ? ms : LONGEST_MS;
    this.#checkAt = now() + wait;
    setTimeout(this.#check, Math.ceil(wait)).unref();
  }

  #check = () => {
    this.#isTimerSet = false;
    if (this.#isExact && now() - this.#checkAt > LATE_MS) return this.#setTimer(LATE_MS);
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
