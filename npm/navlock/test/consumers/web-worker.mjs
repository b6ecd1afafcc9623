// As much of the web's workers as the packages need: the class `Worker`, and, in a worker, the functions of its
// scope. Locks and channels do not depend on this file.

import { isMainThread, parentPort, Worker as Thread } from 'node:worker_threads';

/** A thread with the interface of a worker. */
export class Worker extends EventTarget {
  #thread;

  constructor(url) {
    super();
    this.#thread = new Thread(url);
    this.#thread.on('message', (data) => this.dispatchEvent(new MessageEvent('message', { data })));
    this.#thread.on('error', (error) => {
      throw error;
    });
  }

  postMessage(message) {
    this.#thread.postMessage(message);
  }

  terminate() {
    this.#thread.terminate();
  }
}

if (!isMainThread) {
  globalThis.postMessage = (message) => parentPort.postMessage(message);
  globalThis.addEventListener = (type, listener, { once = false } = {}) => parentPort[once ? 'once' : 'on'](type, (data) => listener({ data }));
}
