// What a test file has by `navlock/test`, and nothing else: no broker can be started. Run in two files of
// one project, each of which leaves behind what it can.

const assert = require('node:assert/strict');

/** Ends when all that was on its way has arrived. */
const settle = (locks) => locks.request(`settle ${Math.random()}`, () => {});

const forever = () => new Promise(() => {});

function addFrame(document) {
  const frame = document.createElement('iframe');
  document.body.append(frame);
  return frame;
}

/** @type {Record<string, (given: { anew: () => Promise<object>, navlock: object, timers: object }) => unknown>} */
const checks = {
  'the locks are there, and those of the package': async ({ navlock }) => {
    assert.equal(navigator.locks, navlock.locks);
    assert.ok(navigator.locks instanceof LockManager);
    assert.ok(await navigator.locks.request('db', (lock) => lock instanceof Lock));
    assert.throws(() => Reflect.get(Object.getPrototypeOf(navigator), 'locks', {}), { name: 'TypeError' });
  },

  'a copy of the package that is loaded anew has the same locks': async ({ anew }) => {
    assert.equal((await anew()).locks, navigator.locks);
  },

  'nothing of other files is seen': async () => {
    assert.deepEqual(await navigator.locks.query(), { held: [], pending: [] });
  },

  'a user agent that is not named otherwise is the one of the file': async ({ navlock }) => {
    const userAgent = navlock.createUserAgent();
    assert.equal(userAgent.locks, navigator.locks);
    const { locks } = navlock.createUserAgent({ bucket: 'other' }).bucket('another');
    await locks.request('db', async () => {
      userAgent.close();
      assert.equal((await locks.query()).held.length, 1);
    });
    await navigator.locks.request('db', () => {});
  },

  'fake timers keep nothing from being granted, given up or released': async ({ timers }) => {
    timers.fake();
    try {
      const { locks } = navigator;
      let release;
      const holder = locks.request('db', () => new Promise((resolve) => (release = resolve)));
      await settle(locks);
      const controller = new AbortController();
      setTimeout(() => controller.abort('late'), 1000);
      const waiter = locks.request('db', { signal: controller.signal }, () => assert.fail('it was called'));
      const next = locks.request('db', () => new Promise((resolve) => setTimeout(resolve, 500, 'served')));
      assert.equal((await locks.query()).pending.length, 2);
      timers.advance(1000);
      assert.equal(await waiter.catch((reason) => reason), 'late');
      release('held');
      assert.equal(await holder, 'held');
      await settle(locks);
      assert.equal((await locks.query()).held.length, 1);
      timers.advance(500);
      assert.equal(await next, 'served');
    } finally {
      timers.real();
    }
  },

  'what is reported is a warning that the process takes': async ({ navlock }) => {
    const { emitWarning } = process;
    const warned = new Promise((resolve, reject) => {
      process.emitWarning = (warning) => {
        try {
          resolve(emitWarning.call(process, warning) ?? warning);
        } catch (error) {
          reject(error);
        }
      };
    });
    navlock.report({ held: 20 });
    try {
      await navlock.locks.request('long', () => warned);
      const { code, lock, name } = await warned;
      assert.deepEqual([name, code, lock.name], ['NavlockWarning', 'NAVLOCK_HELD', 'long']);
    } finally {
      navlock.report({});
      process.emitWarning = emitWarning;
    }
  },
};

const isDom = typeof document === 'object';

if (isDom) {
  checks['each frame is an agent that meets the others, and ends when it is removed'] = async () => {
    const frame = addFrame(document);
    const other = addFrame(document);
    const nested = addFrame(other.contentWindow.document);
    const { navigator: inFrame } = frame.contentWindow;
    assert.ok(inFrame.locks instanceof LockManager);
    assert.equal(inFrame.locks, inFrame.locks);
    inFrame.locks.request('db', forever);
    inFrame.locks.request('db', forever);
    nested.contentWindow.navigator.locks.request('nested', forever);
    await settle(inFrame.locks);
    const { held, pending } = await navigator.locks.query();
    assert.deepEqual([held.map(({ name }) => name).sort(), pending.map(({ name }) => name)], [['db', 'nested'], ['db']]);
    assert.equal(new Set([...held, ...pending].map(({ clientId }) => clientId)).size, 2);
    const waiters = ['db', 'nested'].map((name) => navigator.locks.request(name, () => 'served'));
    const { locks } = inFrame;
    frame.remove();
    assert.equal(await waiters[0], 'served');
    await assert.rejects(locks.request('db', () => {}), { name: 'InvalidStateError', message: /the window has been closed/ });
    other.remove();
    assert.equal(await waiters[1], 'served');
  };
}

// jsdom opens no windows.
if (isDom && globalThis.happyDOM !== undefined) {
  checks['a window that is opened is an agent, which ends when it is closed'] = async () => {
    const opened = window.open('about:blank');
    const { locks } = opened.navigator;
    locks.request('db', forever);
    await settle(locks);
    const waiter = navigator.locks.request('db', () => 'served');
    opened.close();
    assert.equal(await waiter, 'served');
    await assert.rejects(locks.request('db', () => {}), { name: 'InvalidStateError' });
  };
}

// jsdom closes the frame's window itself, and has others for what is loaded into the frame next.
if (isDom && globalThis.happyDOM === undefined) {
  checks['a frame is an agent by whichever way it is reached, and another one when it was loaded anew'] = async () => {
    const frame = addFrame(document);
    const top = globalThis.jsdom?.window ?? window;
    const { locks } = top[top.length - 1].navigator;
    assert.equal(frame.contentWindow.eval('navigator.locks'), locks);
    assert.ok(frame.contentWindow.eval('navigator.locks instanceof LockManager'));
    locks.request('db', forever);
    await settle(locks);
    frame.src = 'about:blank';
    assert.equal(await frame.contentWindow.navigator.locks.request('db', () => 'served'), 'served');
    await assert.rejects(locks.request('db', () => {}), { name: 'InvalidStateError' });
    frame.remove();
  };
}

checks['what is left behind ends with the file'] = async () => {
  await new Promise((resolve) => navigator.locks.request('left', () => resolve() ?? forever()));
  navigator.locks.request('left', () => assert.fail('it was granted'));
  if (isDom) addFrame(document).contentWindow.navigator.locks.request('left', forever);
  assert.equal((await navigator.locks.query()).pending.length, isDom ? 2 : 1);
};

/** Tells the runner all of them. */
function tell({ afterAll, anew, navlock, test, timers }) {
  for (const [name, check] of Object.entries(checks)) test(name, () => check({ anew, navlock, timers }));
  // Here everything is as in the tests.
  afterAll(async () => {
    assert.equal(navigator.locks, navlock.locks);
    assert.equal(await navlock.locks.request('after all', () => 'granted'), 'granted');
  });
}

module.exports = { tell };
