// What locks must do in a test environment that has put a DOM's globals in the place of Node's. Each
// check is given the module, and fails by throwing.

const assert = require('node:assert/strict');
const { transferableAbortController } = require('node:util');

/** Signals of the environment, and of Node, which libraries may have taken before. */
const controllers = {
  'the environment': () => new AbortController(),
  Node: () => transferableAbortController(),
};

const open = ({ createUserAgent }) => createUserAgent({ reach: 'process', private: true }).locks;

/** A lock that is held, and a way to let it go. */
async function hold(locks, options = {}) {
  let release;
  const released = new Promise((resolve) => (release = resolve));
  let ended;
  const lock = await new Promise((resolve, reject) => {
    ended = locks.request('db', options, (lock) => {
      resolve(lock);
      return released;
    });
    ended.catch(reject);
  });
  return { ended, lock, release };
}

const reasonOf = (promise) => promise.then((value) => assert.fail(`it was fulfilled with ${value}`), (reason) => reason);

/** @type {Record<string, (navlock: object) => Promise<void>>} */
const checks = {
  'a lock is granted, seen and released': async (navlock) => {
    const locks = open(navlock);
    await locks.request('db', { mode: 'shared' }, async (lock) => {
      assert.equal(lock.mode, 'shared');
      assert.equal((await locks.query()).held.length, 1);
    });
    assert.equal((await locks.query()).held.length, 0);
  },

  'what is refused is a DOMException of the environment': async (navlock) => {
    const reason = await reasonOf(open(navlock).request('-db', () => {}));
    assert.equal(reason.name, 'NotSupportedError');
    assert.ok(reason instanceof DOMException);
  },

  'what is no signal is refused': async (navlock) => {
    const { signal } = new AbortController();
    for (const value of [null, {}, Object.create(Object.getPrototypeOf(signal)), Object.create(signal), new Proxy(signal, {})]) {
      assert.equal((await reasonOf(open(navlock).request('db', { signal: value }, () => {}))).name, 'TypeError');
    }
  },

  'whoever is stolen from is told by a signal': async (navlock) => {
    const locks = open(navlock);
    const { ended, lock } = await hold(locks);
    const { lost } = navlock.inspect(lock);
    const told = new Promise((resolve) => lost.addEventListener('abort', resolve));
    const reason = reasonOf(ended);
    await locks.request('db', { steal: true }, () => {});
    await told;
    assert.equal(lost.aborted, true);
    assert.equal((await reason).name, 'AbortError');
  },

  'navigator.locks can be ours': async (navlock) => {
    require('navlock/register');
    assert.equal(navigator.locks, navlock.locks);
    assert.equal(globalThis.LockManager, navlock.LockManager);
  },
};

for (const [owner, create] of Object.entries(controllers)) {
  checks[`a signal of ${owner} aborts who waits, and nobody else`] = async (navlock) => {
    const locks = open(navlock);
    const controller = create();
    const holder = await hold(locks, { signal: controller.signal });
    const waiter = locks.request('db', { signal: controller.signal }, () => assert.fail('it was called'));
    const next = locks.request('db', () => 'served');
    assert.equal((await locks.query()).pending.length, 2);
    const reason = reasonOf(waiter);
    controller.abort('reason');
    assert.equal(await reason, 'reason');
    assert.equal((await locks.query()).pending.length, 1);
    holder.release('value');
    assert.equal(await holder.ended, 'value');
    assert.equal(await next, 'served');
  };

  checks[`a signal of ${owner} that has aborted is reported`] = async (navlock) => {
    const controller = create();
    controller.abort();
    const reason = await reasonOf(open(navlock).request('db', { signal: controller.signal }, () => {}));
    assert.equal(reason, controller.signal.reason);
  };
}

module.exports = { checks };
