'use strict';
// What has taken longer than a time.

const { Map, mapDelete, mapFirst, mapSet, now, setTimeout } = require('./primordials.cjs');

class Overdue {
  /** When each was added: in the order of time. */
  #since = new Map();
  #ms;
  #tell;
  #isTimerSet = false;

  /**
   * @param {number} ms
   * @param {(item: object, ms: number) => void} tell  called once for each item that is still there
   */
  constructor(ms, tell) {
    this.#ms = ms;
    this.#tell = tell;
  }

  add(item) {
    mapSet(this.#since, item, now());
    if (!this.#isTimerSet) this.#setTimer(this.#ms);
  }

  /** Nothing if it is not there (any more). */
  delete(item) {
    mapDelete(this.#since, item);
  }

  /** One for all. It keeps nothing alive. */
  #setTimer(ms) {
    this.#isTimerSet = true;
    setTimeout(this.#look, Math.ceil(ms)).unref();
  }

  #look = () => {
    this.#isTimerSet = false;
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
