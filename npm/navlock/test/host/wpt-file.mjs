// Runs a file of the web-platform-tests in any runtime, with the globals that the file needs. The checkout's own
// testharness.js is loaded without a change. It finds no document, and so takes the runtime for a shell.

/**
 * What the runtime does for a file.
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

  // Everything is loaded in one turn: the harness takes the end of the turn for the end of loading.
  load(`${job.checkout}/resources/testharness.js`);
  report(platform);
  // idlharness.js asks which kind of global scope this is. Node has only one kind, with the Navigator of windows.
  if (!globalThis.DedicatedWorkerGlobalScope && !globalThis.Window) globalThis.Window = class Window {};
  for (const script of scripts) load(inCheckout(job.checkout, script.startsWith('/') ? script : folder + script));
  platform.evaluate(code, job.file);
  // In a worker of the web, the harness waits for this call.
  const { DedicatedWorkerGlobalScope } = globalThis;
  if (DedicatedWorkerGlobalScope && globalThis instanceof DedicatedWorkerGlobalScope) globalThis.done();
}

/** The file in the checkout that the tests' server would send for this address. */
function inCheckout(checkout, address) {
  if (address === '/resources/WebIDLParser.js') return `${checkout}/resources/webidl2/lib/webidl2.js`;
  return `${checkout}${address.startsWith('/') ? '' : '/web-locks/'}${address}`;
}

/** Prints each result as it comes, because a subject may end the process in the middle. */
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

/** Defines the globals that a file expects, as far as the runtime does not have them. */
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
  // A page goes on after a rejection that nobody handles, and tests rely on that.
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
