// As much of the web's workers as packages need that are made for them: a `Worker`, and in one, the
// functions of its scope. Locks and channels have nothing to do with it.

import { isMainThread, parentPort, Worker as Thread } from 'node:worker_threads';

/** A thread that is spoken to as a worker. */
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
