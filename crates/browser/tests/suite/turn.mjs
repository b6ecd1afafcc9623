// What the tests import: they are suspended until a promise of ours settles.

const { port1, port2 } = new MessageChannel();
let resume;
port1.onmessage = () => resume(performance.now());

// A task of the event loop, as a message is. (What a timer runs would come later each time.)
export const turn = new WebAssembly.Suspending(() => new Promise((resolve) => {
  resume = resolve;
  port2.postMessage(null);
}));

let release;

function request(options) {
  navigator.locks.request('db', options, () => new Promise((resolve) => { release = resolve; }));
}

export const request_db = () => request({});
export const steal_db = () => request({ steal: true });
export const has_db = () => (release ? 1 : 0);
export const release_db = () => { release(); release = undefined; };

// As a browser does whose window goes away meanwhile, which cannot be had of a page that goes on with its test.
export const refuse = () => {
  const refused = async () => { throw new DOMException('it is shutting down', 'AbortError'); };
  Object.assign(LockManager.prototype, { request: refused, query: refused });
};
