// node chromium.mjs FOLDER [WORD…]: runs the tests in headless Chromium, those with one of these words in
// their names. FOLDER has what wasm-bindgen made of them: suite.js and suite_bg.wasm.
//
// Each test has an origin of its own, for which Chromium takes any host below `localhost`, so that none finds
// what another has left. The page of one test sends what came of it and is told which is next.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CANNOT, CHROMIUM, FAILS } from './differs.mjs';

const PROGRAM = process.env.CHROMIUM ?? 'chromium';
// How long a test may take, and then Chromium is started anew.
const LONG = 90_000;

const [folder, ...words] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node chromium.mjs FOLDER [WORD…]');
  process.exit(2);
}
const expected = { ...FAILS, ...CHROMIUM };
const here = fileURLToPath(new URL('.', import.meta.url));
const files = {
  '/suite.js': [join(folder, 'suite.js'), 'text/javascript'],
  '/suite_bg.wasm': [join(folder, 'suite_bg.wasm'), 'application/wasm'],
  '/turn.mjs': [join(here, 'turn.mjs'), 'text/javascript'],
};

// What runs in the page.
async function page() {
  const tell = async (what) => (await fetch('/said', { method: 'POST', body: JSON.stringify(what) })).json();
  const said = [];
  console.error = (text) => said.push(text);
  const number = new URL(location).searchParams.get('test');
  let what;
  try {
    const { default: init, names } = await import('/suite.js');
    const exports = await init();
    if (number === null) {
      what = { names: names().split('\n') };
    } else {
      await WebAssembly.promising(exports.run)(Number(number));
      what = { number: Number(number) };
    }
  } catch (error) {
    what = { number: number && Number(number), failed: [...said, String(error?.stack ?? error)].join('\n') };
  }
  const { next } = await tell(what);
  if (next) location = next;
}

const html = `<!doctype html><meta charset="utf-8"><title>navlock</title><script type="module">(${page})()</script>`;

let names;
const results = new Map(); // by number: undefined if it passed, or why it failed
const todo = [];
let hear = () => {};

const server = createServer((request, response) => {
  const path = request.url.split('?')[0];
  if (request.method === 'POST') {
    let body = '';
    request.on('data', (chunk) => { body += chunk; });
    request.on('end', () => {
      const next = note(JSON.parse(body));
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ next }));
      hear();
    });
  } else if (path === '/') {
    response.setHeader('content-type', 'text/html');
    response.end(html);
  } else if (files[path]) {
    const [file, type] = files[path];
    response.setHeader('content-type', type);
    response.end(readFileSync(file));
  } else {
    response.statusCode = 404;
    response.end();
  }
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const { port } = server.address();
const address = (number) => `http://test-${number}.localhost:${port}/?test=${number}`;

// Takes down what a page says. Where the page goes next.
function note(what) {
  if (what.names) {
    names = what.names;
    const wanted = (name) => words.length === 0 || words.some((word) => name.includes(word));
    names.forEach((name, number) => { if (wanted(name) && !CANNOT[name]) todo.push(number); });
  } else if (what.number === null || what.number === undefined) {
    console.error(`the page cannot load the tests:\n${what.failed}`);
    process.exit(1);
  } else {
    results.set(what.number, what.failed);
    told(what.number);
  }
  const next = todo.find((number) => !results.has(number));
  return next === undefined ? null : address(next);
}

function told(number) {
  const [name, failed] = [names[number], results.get(number)];
  const known = expected[name];
  let word;
  if (failed === undefined) word = known ? 'PASSED, AND IS SAID TO FAIL' : 'ok';
  else if (isAsKnown(number)) word = 'fails, as is known';
  else word = known ? `FAILED, and not as is known, which says ${known.says}` : 'FAILED';
  console.log(`${name} ... ${word}`);
  if (failed !== undefined && !isAsKnown(number)) console.log(failed.replace(/^/gm, '    '));
}

// Whether what came of a test is what is known of it: another failure than that is one of ours.
function isAsKnown(number) {
  const [known, failed] = [expected[names[number]], results.get(number)];
  return known ? failed !== undefined && known.says.test(failed) : failed === undefined;
}

const isDone = () => names && todo.every((number) => results.has(number));

// Runs Chromium until all is done or nothing more is heard. Why that is, if it is not done.
async function browse(url) {
  const profile = mkdtempSync(join(tmpdir(), 'navlock-chromium-'));
  const flags = [
    '--headless', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--no-proxy-server', `--user-data-dir=${profile}`,
    ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []), // which root cannot have
  ];
  // A group of its own, so that none of its processes outlives it.
  const chromium = spawn(PROGRAM, [...flags, url], { stdio: 'ignore', detached: true });
  // Also where this program ends by a signal or a failure.
  const clear = () => {
    try { process.kill(-chromium.pid, 'SIGKILL'); } catch { /* it has ended, or could not be started */ }
    // Its processes end one by one, and write until then.
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  };
  process.on('exit', clear);
  const ended = new Promise((resolve) => chromium.on('exit', (code, signal) => resolve({ code, signal })));
  chromium.on('error', (error) => {
    console.error(`cannot start ${PROGRAM}: ${error.message} (Debian: apt-get install chromium, or set CHROMIUM)`);
    process.exit(1);
  });
  let why;
  while (why === undefined && !isDone()) {
    let timer;
    why = await Promise.race([
      new Promise((resolve) => { hear = () => resolve(undefined); }),
      new Promise((resolve) => { timer = setTimeout(() => resolve(`nothing was heard of it for ${LONG / 1000} s`), LONG); }),
      ended.then(({ code, signal }) => `Chromium ended meanwhile (${signal ?? `exit code ${code}`})`),
    ]);
    clearTimeout(timer);
  }
  clear();
  await ended;
  process.off('exit', clear);
  return why;
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));
const version = spawnSync(PROGRAM, ['--version'], { encoding: 'utf8' }).stdout?.trim().split('\n')[0] ?? PROGRAM;
let why = await browse(`http://localhost:${port}/`);
if (!names) {
  console.error(`${version} did not load the tests: ${why}`);
  process.exit(1);
}
while (!isDone()) {
  // The one that it was at.
  const number = todo.find((number) => !results.has(number));
  results.set(number, why);
  told(number);
  const next = todo.find((number) => !results.has(number));
  if (next !== undefined) why = await browse(address(next));
}
server.close();

const unknown = [...Object.keys(CANNOT), ...Object.keys(expected)].filter((name) => !names.includes(name));
const wrong = todo.filter((number) => !isAsKnown(number));
const count = (test) => todo.filter(test).length;
const passed = count((number) => results.get(number) === undefined);
const cannot = names.filter((name) => CANNOT[name]).length;
console.log(`\n${version}: ${passed} passed, ${todo.length - passed} failed (${wrong.length} of all otherwise than is known), ${cannot} cannot run, of ${names.length}`);
for (const name of unknown) console.log(`there is no test ${name}`);
process.exit(wrong.length || unknown.length || todo.length === 0 ? 1 : 0);
