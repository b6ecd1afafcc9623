// The outside of an agent: what a test has in its hand.

import { Failure } from './assert.mjs';
import { deferred } from './wait.mjs';

/** An error of another agent, told here. */
export class RemoteError extends Error {
  constructor({ name, text, dom }) {
    super(`in the other agent: ${text}`);
    this.name = name ?? 'Error';
    this.isDOMException = dom;
  }
}

export class RemoteAgent {
  #channel;
  #calls = new Map();
  #ready = deferred();
  #ended = deferred();
  #next = 0;

  /**
   * @param {{ post: (message: object) => void, end: () => void }} channel  `end` is sudden, as far
   *     as the platform knows sudden ends
   */
  constructor(channel) {
    this.#channel = channel;
  }

  /** Told by the channel. */
  receive(message) {
    if (message.ready) return this.#ready.resolve(this);
    const call = this.#calls.get(message.id);
    this.#calls.delete(message.id);
    if (message.error) call?.reject(new RemoteError(message.error));
    else call?.resolve(message.value);
  }

  /** Told by the channel, where it can see it. */
  hasEnded(how) {
    const error = new Failure(`the other agent has ended (${how})`);
    this.#ready.reject(error);
    for (const call of this.#calls.values()) call.reject(error);
    this.#ended.resolve(how);
  }

  get ready() {
    return this.#ready.promise;
  }

  get ended() {
    return this.#ended.promise;
  }

  /**
   * Runs `call` there. It is sent as its source: it sees nothing of where it is written.
   *
   * @param {(agent: object, ...args: any[]) => unknown} call
   */
  run(call, ...args) {
    const id = this.#next++;
    const outcome = deferred();
    this.#calls.set(id, outcome);
    this.#channel.post({ id, source: String(call), args });
    return outcome.promise;
  }

  /** Asks for a lock there; the request has taken its place in the queue when this is fulfilled. */
  async hold(name, options = {}) {
    const index = await this.run(async ({ hold, holds, locks }, name, options) => {
      const index = holds.push(hold(name, options)) - 1;
      await locks.query(); // answered after the request was dealt with
      return index;
    }, name, options);
    return new RemoteHold(this, index);
  }

  query() {
    return this.run(({ locks }) => locks.query());
  }

  settle() {
    return this.run(({ settle }) => settle());
  }

  isFree(name, mode = 'exclusive') {
    return this.run(({ isFree }, name, mode) => isFree(name, mode), name, mode);
  }

  /** @param {'terminate' | 'close' | 'throw' | 'return'} way  from outside, or from within */
  die(way) {
    if (way === 'terminate') this.#channel.end();
    else this.run(({ die }, way) => die(way), way);
  }
}

export class RemoteHold {
  #agent;
  #index;

  constructor(agent, index) {
    this.#agent = agent;
    this.#index = index;
  }

  /** Fulfilled with whether there is a lock, once the callback has run. */
  get granted() {
    return this.#agent.run(async ({ holds }, index) => (await holds[index].granted) !== null, this.#index);
  }

  /** Whether the callback has run, when all that was on its way has arrived. */
  hasRun() {
    return this.#agent.run(async ({ holds, settle }, index) => {
      await settle();
      return holds[index].hasRun;
    }, this.#index);
  }

  /** What `request()` came to, there. */
  get ended() {
    return this.#agent.run(({ holds }, index) => holds[index].ended, this.#index);
  }

  release() {
    return this.#agent.run(({ holds }, index) => holds[index].release(), this.#index);
  }
}
