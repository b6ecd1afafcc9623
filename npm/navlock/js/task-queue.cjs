'use strict';
// Tasks of the event loop: <https://html.spec.whatwg.org/multipage/webappapis.html#queue-a-task>.

const { setImmediate } = require('./primordials.cjs');

class TaskQueue {
  /** How many tasks are on their way. */
  #due = 0;

  /** This turn is a task in which nothing else has been done, and no task that is due is before it. */
  #isTaskFree = false;

  /**
   * Runs `task(argument)` in a task of its own, after those that were queued before.
   *
   * FAST: the task in which we were woken will do, for the first. The event loop takes as long to
   * get from one to the next as a whole request does.
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

  /** A task of the event loop has begun, and was queued for nothing else than to see what is due. */
  offerTask() {
    this.#isTaskFree = this.#due === 0;
  }

  /** That task is over, or something else is done in it. */
  withdrawTask() {
    this.#isTaskFree = false;
  }
}

module.exports = { TaskQueue };
