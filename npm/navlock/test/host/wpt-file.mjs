// What a file of the web-platform-tests needs around it, in whichever runtime. The checkout's own
// testharness.js is loaded as it is; it finds no document, and takes this for a shell.

/**
 * What the runtime does for it.
 *
 * @typedef {object} Platform
 * @property {(file: string) => string} read
 * @property {(source: string, file: string) => void} evaluate  as a script, in the global scope
 * @property {(line: string) => void} print
 * @property {() => void} end  ends the process, also out of a worker
 * @property {(url: string) => object} locationOf
 * @property {() => void} ignoreRejections
 * @property {(job: object, what: object, onMessage: (data: unknown) => void) => { post(data): void, end(): void }} startWorker
 */

/**
 * @param {{ checkout: string, file: string, scope: 'window' | 'worker', realm: string }} job
 * @param {Platform} platform
 */
export async function runFile(job, platform) {
  const { openRealm } = await import(`../realms/${job.realm}.mjs`);
  await openRealm();
  provideGlobals(job, platform);
  const folder = job.file.startsWith('/') ? job.file.replace(/[^/]*$/, '') : '/web-locks/';
  const source = platform.read(inCheckout(job.checkout, job.file));
  const scripts = [...source.matchAll(/^\/\/ META: script=(.*)$/gm), ...source.matchAll(/<script src="(.*?)">/g)]
    .map(([, script]) => script)
    .filter((script) => !script.includes('testharness'));
  const code = job.file.endsWith('.html') ? [...source.matchAll(/<script>(.*?)<\/script>/gs)].map(([, code]) => code).join('\n') : source;
  const load = (file) => platform.evaluate(platform.read(file), file);

  // All in one turn: the harness takes the end of the turn for the end of loading.
  load(`${job.checkout}/resources/testharness.js`);
  report(platform);
  // idlharness.js asks what kind of global this is. Node has one kind, and the Navigator of windows.
  if (!globalThis.DedicatedWorkerGlobalScope && !globalThis.Window) globalThis.Window = class Window {};
  for (const script of scripts) load(inCheckout(job.checkout, script.startsWith('/') ? script : folder + script));
  platform.evaluate(code, job.file);
  // Where the harness sees a worker of the web, it waits to be told.
  const { DedicatedWorkerGlobalScope } = globalThis;
  if (DedicatedWorkerGlobalScope && globalThis instanceof DedicatedWorkerGlobalScope) globalThis.done();
}

/** Where the tests' server would find it. */
function inCheckout(checkout, address) {
  if (address === '/resources/WebIDLParser.js') return `${checkout}/resources/webidl2/lib/webidl2.js`;
  return `${checkout}${address.startsWith('/') ? '' : '/web-locks/'}${address}`;
}

/** Told line by line, because a subject may end the process in the middle. */
function report(platform) {
  const STATUS = ['PASS', 'FAIL', 'TIMEOUT', 'NOTRUN', 'PRECONDITION_FAILED'];
  const print = (kind, what) => platform.print(`\n@${kind} ${JSON.stringify(what)}`);
  globalThis.add_test_state_callback(({ name }) => print('begin', { name }));
  globalThis.add_result_callback(({ name, status, message }) => print('result', { name, status: STATUS[status], message }));
  globalThis.add_completion_callback((tests, { status, message }) => {
    if (status !== 0) print('result', { name: '(the harness)', status: 'FAIL', message });
    print('done', {});
    platform.end();
  });
}

/** What a file expects of a global scope, as far as the runtime has not got it. */
function provideGlobals({ checkout, file, scope, realm }, platform) {
  const define = (name, value) => Object.defineProperty(globalThis, name, { configurable: true, writable: true, value });
  define('self', globalThis);
  define('location', platform.locationOf(`http://localhost${file.startsWith('/') ? '' : '/web-locks/'}${file}`));
  if (!('isSecureContext' in globalThis)) define('isSecureContext', true);
  define('GLOBAL', {
    isWindow: () => scope === 'window',
    isWorker: () => scope === 'worker',
    isShadowRealm: () => false,
  });
  const { fetch } = globalThis;
  define('fetch', async (url, ...rest) => {
    if (!String(url).startsWith('/')) return fetch(url, ...rest);
    const text = platform.read(inCheckout(checkout, String(url)));
    return { ok: true, status: 200, text: async () => text };
  });
  // Pages live on when nobody handles a rejection, and tests count on it.
  platform.ignoreRejections();
  define('Worker', class extends EventTarget {
    constructor(script) {
      super();
      const worker = platform.startWorker({ checkout, realm }, { script: `web-locks/${script}` }, (data) => {
        this.dispatchEvent(Object.assign(new Event('message'), { data }));
      });
      this.postMessage = worker.post;
      this.terminate = worker.end;
    }
  });
}
