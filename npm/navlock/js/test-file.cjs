'use strict';
// What `navlock/test` gives a test file: a user agent that nothing else shares. This user agent is the default one. Its
// locks are `navigator.locks` in each window of a test environment. It ends with the file.

const { TypeError } = require('./primordials.cjs');
const { OF_TEST_FILE } = require('./copies.cjs');
const navlock = require('./index.cjs');
const { installAttribute, installInterfaces, installNavigator, replace } = require('./install.cjs');
const { endAgent } = require('./lock-manager.cjs');
const { createAgent, locks, replaceDefaultUserAgent } = require('./user-agent.cjs');

/**
 * The global property in which jest's runner keeps its event handlers. The runner's package, jest-circus, has a
 * function that adds a handler. We do not load that package: we would get another copy of its code than the one that
 * runs the tests, or none where jest's packages are not installed beside ours.
 */
const HANDLERS_OF_JEST = Symbol.for('EVENT_HANDLERS');

/** @param {((end: () => void) => void) | undefined} afterAll  of the runner */
function beginTestFile(afterAll) {
  const handlers = globalThis[HANDLERS_OF_JEST];
  if (!Array.isArray(handlers) && typeof afterAll !== 'function') {
    throw new Error('navlock/test: nothing here says when a test file ends; name this module in setupFiles of vitest, or in setupFilesAfterEnv '
      + '(not setupFiles) of jest. With other runners use createUserAgent({ reach: "process", private: true }), and close it');
  }
  const file = new TestFile();
  const end = () => file.end();
  // jest runs the functions of `afterAll` in the order in which they were given, and those of the file may still need
  // locks.
  if (Array.isArray(handlers)) handlers.push(({ name }) => name === 'run_finish' && end());
  else afterAll(end);
}

class TestFile {
  #userAgent = replaceDefaultUserAgent();

  /** The lock managers of windows, by their navigators: each is an agent of its own. */
  #locks = new WeakMap();

  /** Windows of happy-dom that have been opened. */
  #opened = [];

  /** The functions that take back the changes that other files may see. */
  #undo = [replace(globalThis, OF_TEST_FILE, { value: navlock })];

  constructor() {
    if (!globalThis.navigator) this.#undo.push(installNavigator());
    // vitest copies the members of a window to the global object, once.
    const window = globalThis.jsdom?.window ?? globalThis;
    this.#undo.push(this.#add(window, locks));
    if (window !== globalThis) this.#undo.push(installInterfaces(globalThis), this.#onClose(globalThis, locks));
    if (globalThis.happyDOM !== undefined) this.#undo.push(this.#noteOpened());
    else if (globalThis.document !== undefined) this.#undo.push(this.#addFrames(globalThis.document));
  }

  /** The test file has ended. */
  end() {
    this.#userAgent.terminate();
    while (this.#undo.length > 0) this.#undo.pop()();
  }

  /** Gives a window its locks. Returns a function that takes them away again. */
  #add(window, locks) {
    this.#locks.set(window.navigator, locks);
    const undo = [
      installInterfaces(window),
      installAttribute(window.navigator, (navigator) => this.#locksOf(navigator)),
      this.#onClose(window, locks),
    ];
    return () => undo.forEach((step) => step());
  }

  #locksOf(navigator) {
    const known = this.#locks.get(navigator);
    if (known !== undefined) return known;
    // All windows of happy-dom share one interface, so the navigator of a window that we do not know comes here when it
    // is first asked for its locks.
    const window = globalThis.happyDOM === undefined ? undefined : windowOf(navigator, [...this.#opened, ...framesOf(globalThis.document)]);
    if (window === undefined) throw new TypeError('Illegal invocation: this is not the navigator');
    const locks = createAgent(this.#userAgent);
    this.#locks.set(navigator, locks);
    this.#onClose(window, locks);
    return locks;
  }

  /** Ends the agent of a window when the window is closed, as that of a removed frame is. */
  #onClose(window, locks) {
    const close = () => endAgent(locks, 'the window has been closed');
    if (globalThis.happyDOM !== undefined) {
      let isClosed = window.closed;
      const set = (value) => {
        isClosed = value;
        if (isClosed) close();
      };
      return replace(window, 'closed', { get: () => isClosed, set, enumerable: true });
    }
    const { close: inner } = window;
    if (typeof inner !== 'function') return () => {};
    const value = function (...args) {
      try {
        return Reflect.apply(inner, this, args);
      } finally {
        close();
      }
    };
    return replace(window, 'close', { value, writable: true, enumerable: true });
  }

  #noteOpened() {
    const { open } = globalThis;
    const note = (...args) => {
      const opened = open(...args);
      if (opened) this.#opened.push(opened);
      return opened;
    };
    return replace(globalThis, 'open', { value: note, writable: true, enumerable: true });
  }

  /**
   * Gives the windows of jsdom's frames their locks, before the code that they load runs. jsdom has no event for a
   * new window, and each window has interfaces of its own. So methods of the object that implements the frame's element
   * are replaced. If that object does not have the methods that we know, frames have no locks.
   */
  #addFrames(document) {
    const frame = document.createElement('iframe');
    const impl = Object.getOwnPropertySymbols(frame).find(({ description }) => description === 'impl');
    let prototype = impl === undefined ? null : frame[impl];
    while (prototype !== null && !Object.hasOwn(prototype, '_attach')) prototype = Object.getPrototypeOf(prototype);
    if (prototype === null) return () => {};
    const add = (window) => {
      if (window && !this.#locks.has(window.navigator)) this.#add(window, createAgent(this.#userAgent));
    };
    for (const window of framesOf(document)) add(window);
    const undo = ['_attach', '_attrModified'].map((name) => {
      const inner = prototype[name];
      const value = function (...args) {
        const result = Reflect.apply(inner, this, args);
        add(this.contentWindow);
        return result;
      };
      return replace(prototype, name, { value, writable: true, enumerable: false });
    });
    return () => undo.forEach((step) => step());
  }
}

/** The windows of a document's frames. */
function framesOf(document) {
  return [...document.querySelectorAll('iframe, frame')].map(({ contentWindow }) => contentWindow);
}

/** The window, among these and their frames, to which a navigator belongs. */
function windowOf(navigator, windows) {
  for (const window of windows) {
    if (!window?.document) continue; // closed, or of another origin
    const found = window.navigator === navigator ? window : windowOf(navigator, framesOf(window.document));
    if (found !== undefined) return found;
  }
  return undefined;
}

module.exports = { beginTestFile };
