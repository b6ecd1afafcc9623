// What a file of the web-platform-tests needs around it. The checkout's own testharness.js is
// loaded as it is; it finds no document, and takes this for a shell.

import { readFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import vm from 'node:vm';

import { startWorker } from './wpt-worker-outside.mjs';

/** @param {{ checkout: string, file: string, scope: 'window' | 'worker', realm: string }} job */
export async function runFile(job) {
  const { openRealm } = await import(`../realms/${job.realm}.mjs`);
  await openRealm();
  provideGlobals(job);
  const source = readFileSync(inCheckout(job.checkout, job.file), 'utf8');
  const scripts = [...source.matchAll(/^\/\/ META: script=(.*)$/gm), ...source.matchAll(/<script src="(.*?)">/g)]
    .map(([, script]) => script)
    .filter((script) => !script.includes('testharness'));
  const code = job.file.endsWith('.html') ? [...source.matchAll(/<script>(.*?)<\/script>/gs)].map(([, code]) => code).join('\n') : source;

  // All in one turn: the harness takes the end of the turn for the end of loading.
  load(path.join(job.checkout, 'resources/testharness.js'));
  report();
  // idlharness.js asks what kind of global this is. Node has one kind, and the Navigator of windows.
  if (!globalThis.DedicatedWorkerGlobalScope && !globalThis.Window) globalThis.Window = class Window {};
  for (const script of scripts) load(inCheckout(job.checkout, script));
  vm.runInThisContext(code, { filename: job.file });
  // Where the harness sees a worker of the web, it waits to be told.
  const { DedicatedWorkerGlobalScope } = globalThis;
  if (DedicatedWorkerGlobalScope && globalThis instanceof DedicatedWorkerGlobalScope) globalThis.done();
}

/** Where the tests' server would find it. */
function inCheckout(checkout, address) {
  if (address === '/resources/WebIDLParser.js') return path.join(checkout, 'resources/webidl2/lib/webidl2.js');
  return path.join(checkout, address.startsWith('/') ? '' : 'web-locks', address);
}

function load(file) {
  vm.runInThisContext(readFileSync(file, 'utf8'), { filename: file });
}

/** Told line by line, because a subject may end the process in the middle. */
function report() {
  const STATUS = ['PASS', 'FAIL', 'TIMEOUT', 'NOTRUN', 'PRECONDITION_FAILED'];
  const print = (kind, what) => writeSync(1, `\n@${kind} ${JSON.stringify(what)}\n`);
  globalThis.add_test_state_callback(({ name }) => print('begin', { name }));
  globalThis.add_result_callback(({ name, status, message }) => print('result', { name, status: STATUS[status], message }));
  globalThis.add_completion_callback((tests, { status, message }) => {
    if (status !== 0) print('result', { name: '(the harness)', status: 'FAIL', message });
    print('done', {});
    end();
  });
}

/** Ends the process, also out of a worker. */
function end() {
  process.kill(process.pid, 'SIGKILL');
}

/** What a file expects of a global scope, as far as the runtime has not got it. */
function provideGlobals({ checkout, file, scope, realm }) {
  const define = (name, value) => Object.defineProperty(globalThis, name, { configurable: true, writable: true, value });
  define('self', globalThis);
  define('location', new URL(`http://localhost/web-locks/${file}`));
  if (!('isSecureContext' in globalThis)) define('isSecureContext', true);
  define('GLOBAL', {
    isWindow: () => scope === 'window',
    isWorker: () => scope === 'worker',
    isShadowRealm: () => false,
  });
  const { fetch } = globalThis;
  define('fetch', async (url, ...rest) => {
    if (!String(url).startsWith('/')) return fetch(url, ...rest);
    return new Response(readFileSync(inCheckout(checkout, String(url)), 'utf8'));
  });
  // Pages live on when nobody handles a rejection, and tests count on it.
  process.on('unhandledRejection', () => {});
  globalThis.addEventListener?.('unhandledrejection', (event) => event.preventDefault());
  define('Worker', class extends EventTarget {
    constructor(script) {
      super();
      const worker = startWorker({ checkout, realm }, { script: path.join('web-locks', script) }, (data) => {
        this.dispatchEvent(new MessageEvent('message', { data }));
      });
      this.postMessage = worker.post;
      this.terminate = worker.end;
    }
  });
}
