'use strict';
// Tasks of the event loop: <https://html.spec.whatwg.org/multipage/webappapis.html#queue-a-task>.

const { setImmediate } = require('./primordials.cjs');

class TaskQueue {
  /** How many tasks were queued and have not begun. */
  #due = 0;

  /** Whether this turn is a task in which nothing was done yet, and no queued task is due before it. */
  #isTaskFree = false;

  /**
   * Runs `task(argument)` in a task of its own, after those that were queued before.
   *
   * FAST: the first task runs within the task in which the addon has woken this realm. The event loop takes as long
   * to get from one task to the next as a whole request takes.
   */
  queue(task, argument) {
    if (this.#isTaskFree) {
      this.#isTaskFree = false;
      task(argument);
    } else {
      setImmediate(this.#run, task, argument);
      this.#due++;
    }
  }

  #run = (task, argument) => {
    this.#due--;
    task(argument);
  };

  /** A task of the event loop has begun in which nothing else is to be done. */
  offerTask() {
    this.#isTaskFree = this.#due === 0;
  }

  /** That task is over, or something was done in it. */
  withdrawTask() {
    this.#isTaskFree = false;
  }
}

module.exports = { TaskQueue };
