// A process that runs files in contexts of their own, each with a copy of the package, as test runners do. Prints how
// many contexts are left in the end, and how many locks are held and requests pending by then, as JSON. With `keep`
// the process keeps the global objects of the contexts, but no copy of the package.

import { AsyncLocalStorage } from 'node:async_hooks';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import process from 'node:process';
import vm from 'node:vm';

import { createUserAgent } from 'navlock';

const FILES = 20;
const isKeeping = process.argv[2] === 'keep';
const kept = [];
const runnerStorage = new AsyncLocalStorage();
const require = createRequire(import.meta.url);
const entry = require.resolve('navlock');

/** The globals that a test runner defines for a file. */
const GLOBALS = ['AbortController', 'AbortSignal', 'Buffer', 'DOMException', 'Event', 'EventTarget', 'clearTimeout', 'process', 'setImmediate', 'setTimeout'];

/** Runs code with a `require` that loads the package anew. */
async function runFile(code) {
  const context = vm.createContext(Object.fromEntries(GLOBALS.map((name) => [name, globalThis[name]])));
  const modules = new Map();
  const load = (file) => {
    if (modules.has(file)) return modules.get(file).exports;
    const module = { exports: {} };
    modules.set(file, module);
    const parameters = ['exports', 'require', 'module', '__filename', '__dirname'];
    const wrapper = vm.compileFunction(readFileSync(file, 'utf8'), parameters, { filename: file, parsingContext: context });
    wrapper(module.exports, (name) => (name.startsWith('.') ? load(path.join(path.dirname(file), name)) : require(name)), module, file, path.dirname(file));
    return module.exports;
  };
  const file = vm.compileFunction(`return (async () => { ${code} })();`, ['navlock'], { parsingContext: context });
  const navlock = load(entry);
  // A test runner keeps its data of a file in the file's asynchronous context.
  await runnerStorage.run(vm.runInContext('globalThis', context), () => file(navlock));
  const global = vm.runInContext('globalThis', context);
  if (isKeeping) kept.push(global);
  return new WeakRef(global);
}

const { locks } = createUserAgent({ reach: 'process', bucket: 'files' });
const globals = [];
for (let index = 0; index < FILES; index++) {
  globals.push(await runFile(`
    globalThis.ballast = new Array(1_000_000).fill(${index});
    const { locks } = navlock.createUserAgent({ reach: 'process', bucket: 'files' });
    await locks.request('used', () => {});
    locks.request('left held ${index}', () => new Promise(() => {}));
    locks.request('left held ${index}', () => {});
    await locks.query();
  `));
}
const heldBefore = (await locks.query()).held.length;

const end = Date.now() + 20_000;
let turns = 0;
let left;
let state;
do {
  globalThis.gc();
  await new Promise((resolve) => setTimeout(resolve, 10)); // for finalizers, which run in tasks
  left = globals.filter((global) => global.deref() !== undefined).length;
  state = await locks.query();
} while (isKeeping ? ++turns < 20 : (left > 0 || state.held.length > 0 || state.pending.length > 0) && Date.now() < end);
// The locks of contexts that have ended are free, and the locks of this context go on working.
const isFree = await locks.request('left held 0', { ifAvailable: true }, (lock) => lock !== null);
console.log(JSON.stringify({ files: FILES, heldBefore, left, held: state.held.length, pending: state.pending.length, isFree }));
process.exit(0);
