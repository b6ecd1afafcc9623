// The value that a callback returns is converted to a promise, and the request is settled when that promise
// is settled. This takes the same jobs as if a new promise were resolved with the value. Prints a line for
// each kind of value: its name, and its failure or null.

const values = {
  'a number': () => 1,
  'an object': () => ({}),
  'an object whose then is no function': () => ({ then: 1 }),
  'a promise that is fulfilled': () => Promise.resolve(1),
  'a promise that is rejected': () => Promise.reject(1),
  'a promise that is fulfilled later': async () => {
    await null;
    await null;
    return 1;
  },
  'a promise that is rejected later': async () => {
    await null;
    throw 1;
  },
  'a promise of a promise': async () => Promise.resolve(1),
  'a promise of an object': async () => ({}),
  'a promise of an object that gets a then': (note) => {
    const object = {};
    const promise = Promise.resolve(object);
    object.then = (resolve, ...more) => {
      note(`then ${more.length}`);
      queueMicrotask(() => resolve(1));
    };
    return promise;
  },
  'a promise of an object that gets a then that is no function': (note) => {
    const object = {};
    const promise = Promise.resolve(object);
    // The getter removes itself, because `then` is read again when the request is fulfilled with the object.
    const get = () => (note('get'), delete object.then, 1);
    Object.defineProperty(object, 'then', { get, configurable: true });
    return promise;
  },
  'a promise of an object that gets a then that throws': (note) => {
    const object = {};
    const promise = Promise.resolve(object);
    const get = () => {
      note('get');
      throw 1;
    };
    Object.defineProperty(object, 'then', { get });
    return promise;
  },
  'a promise of a promise that had no then': () => {
    const inner = Promise.resolve(1);
    inner.then = undefined;
    const promise = new Promise((resolve) => resolve(inner));
    delete inner.then;
    return promise;
  },
  'a promise of a rejected promise that had no then': () => {
    const inner = Promise.reject(1);
    inner.then = undefined;
    const promise = new Promise((resolve) => resolve(inner));
    delete inner.then;
    return promise;
  },
  'a promise that is rejected with an object with a then': () => Promise.reject({ then: never }),
  'a promise with a then of its own': (note) => {
    const promise = Promise.resolve(1);
    promise.then = function (...functions) {
      note(`then ${functions.length}`);
      return Promise.prototype.then.apply(this, functions);
    };
    return promise;
  },
  'a promise with a getter of then': (note) => {
    const promise = Promise.resolve(1);
    const get = () => (note('get'), Promise.prototype.then);
    return Object.defineProperty(promise, 'then', { get });
  },
  'a promise with a constructor of its own': (note) => {
    const promise = Promise.resolve(1);
    promise.constructor = { [Symbol.species]: species(note) };
    return promise;
  },
  'a promise whose constructor throws': (note) => {
    const promise = Promise.resolve(1);
    const get = () => {
      note('get');
      throw 2;
    };
    return Object.defineProperty(promise, 'constructor', { get });
  },
  'a promise of a class': (note) => {
    const Class = species(note);
    return new Class((resolve) => resolve(1));
  },
  'a promise of a class that settles itself': () => {
    class Eager extends Promise {
      static get [Symbol.species]() {
        return Promise;
      }
    }
    return Eager.resolve({}).then(() => 1);
  },
  'a promise whose species makes promises of its own': (note) => {
    const promise = Promise.resolve(1);
    // The language's own reactions call these functions with their results.
    promise.constructor = {
      [Symbol.species]: function (executor) {
        executor((value) => note(`resolved ${value}`), (reason) => note(`rejected ${reason}`));
      },
    };
    return promise;
  },
  'a promise whose species makes none': (note) => {
    const promise = Promise.resolve(1);
    promise.constructor = { [Symbol.species]: () => note('made') };
    return promise;
  },
  'a promise whose then is bound': () => {
    const promise = Promise.resolve(1);
    promise.then = Promise.prototype.then.bind(promise);
    return promise;
  },
  'a proxy of a promise': () => new Proxy(Promise.resolve(1), {}),
  'an object whose then is a class': () => ({ then: class {} }),
  'an object with the then of promises': () => ({ then: Promise.prototype.then }),
  'a getter of then that throws': (note) => ({
    get then() {
      note('get');
      throw 1;
    },
  }),
  'a thenable that is fulfilled at once': (note) => ({
    then(resolve, ...more) {
      note(`then ${more.length}`);
      resolve(1);
    },
  }),
  'a thenable that is rejected at once': () => ({ then: (_, reject) => reject(1) }),
  'a thenable that is fulfilled later': () => ({ then: (resolve) => queueMicrotask(() => resolve(1)) }),
  'a thenable of a thenable': () => ({ then: (resolve) => resolve({ then: (resolve) => resolve(1) }) }),
  'a thenable of a promise of an object that gets a then': (note) => ({
    then(resolve) {
      const object = {};
      resolve(Promise.resolve(object));
      object.then = (resolve) => (note('then'), resolve(1));
    },
  }),
  'a thenable that throws': () => ({
    then() {
      throw 1;
    },
  }),
  'a thenable that throws once it is fulfilled': () => ({
    then(resolve) {
      resolve(1);
      throw 2;
    },
  }),
  'a thenable that throws once it is resolved': () => ({
    then(resolve) {
      resolve(Promise.resolve(1));
      throw 2;
    },
  }),
};

function never() {
  throw 'it was called';
}

/** A class of promises that notes when a promise is made. */
function species(note) {
  return class extends Promise {
    constructor(executor) {
      super(executor);
      note('made');
    }
  };
}

/** Notes what happens to a value from now on, and in which round of jobs. */
function follow(make) {
  const noted = [];
  let round = 0;
  let over = false;
  const count = () => {
    round += 1;
    if (!over) queueMicrotask(count);
  };
  queueMicrotask(count);
  const note = (what) => noted.push(`${what} in round ${round}`);
  const end = (what, rounds) => {
    over = true;
    noted.push(`${what} in round ${round - rounds}`);
    return noted.join(', ');
  };
  return {
    value: make(note),
    /** `late`: how many rounds after the value's own promise `promise` is settled. */
    settled: (promise, late) => promise.then(
      (value) => end(`fulfilled ${typeof value}`, late),
      (reason) => end(`rejected ${typeof reason}`, late),
    ),
  };
}

for (const [name, make] of Object.entries(values)) {
  const { value, settled } = follow(make);
  const expected = await settled(new Promise((resolve) => resolve(value)), 0);
  let requested;
  const request = navigator.locks.request('jobs', () => {
    const { value, settled } = follow(make);
    requested = settled(request, 1);
    return value;
  });
  await request.catch(() => {});
  const got = await requested;
  const failure = got === expected ? null : `${got}; and not: ${expected}`;
  console.log(JSON.stringify({ name, failure }));
}
