// The outside of an agent: the object by which a test controls it.

import { Failure } from './assert.mjs';
import { deferred } from './wait.mjs';

/** An error of another agent, as it is told here. */
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
   * Runs `call` in the agent. Its source is sent, so it sees no variable of the place where it is written.
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

  /** Requests a lock in the agent. When this is fulfilled, the request has its place in the queue. */
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

  /** Fulfilled once the callback has run: with whether it was given a lock. */
  get granted() {
    return this.#agent.run(async ({ holds }, index) => (await holds[index].granted) !== null, this.#index);
  }

  /** Whether the callback has run by the time everything on its way has arrived. */
  hasRun() {
    return this.#agent.run(async ({ holds, settle }, index) => {
      await settle();
      return holds[index].hasRun;
    }, this.#index);
  }

  /** How the promise of `request()` was settled in the agent. */
  get ended() {
    return this.#agent.run(({ holds }, index) => holds[index].ended, this.#index);
  }

  release() {
    return this.#agent.run(({ holds }, index) => holds[index].release(), this.#index);
  }
}
