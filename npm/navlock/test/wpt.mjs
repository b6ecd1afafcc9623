// Runs the web-platform-tests of Web Locks, which are not part of this repository, on subjects:
// node test/wpt.mjs --wpt CHECKOUT [--subject node,deno] [--file WORDS] [--update] [--verbose].
//
// wpt-expectations.json lists the tests that are expected to fail. The exit code is 1 if another test fails, or if a
// test passes that is expected to fail.

import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';

import { subjects } from './subjects/index.mjs';

const EXPECTATIONS = new URL('wpt-expectations.json', import.meta.url);

/** How long a file may take. A file takes all of this time if it waits for something that never comes. */
const DEADLINE = 10_000;

/** Folders of the checkout, if it has them, with tests of the DOM that navlock gives to engines embedded in Rust. */
const OF_THE_DOM = ['dom/abort', 'dom/events', 'webidl/ecmascript-binding/es-exceptions'];

/** Files that make no sense outside of a browser. */
const LEFT_OUT = {
  'non-secure-context.any.js': 'every program is a secure context',
  'storage-buckets.tentative.https.any.js': 'navigator.storageBuckets is another specification',
};

const { values } = parseArgs({
  options: {
    wpt: { type: 'string' },
    subject: { type: 'string', default: 'node,deno' },
    file: { type: 'string', default: '' },
    update: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  },
});

const checkout = values.wpt && path.resolve(values.wpt);
if (!checkout || !existsSync(path.join(checkout, 'web-locks')) || !existsSync(path.join(checkout, 'resources/testharness.js'))) {
  console.error('wpt: --wpt needs a checkout of web-platform-tests, with its folders web-locks and resources');
  process.exit(2);
}

const expectations = JSON.parse(readFileSync(EXPECTATIONS, 'utf8'));
let surprises = 0;
for (const name of values.subject.split(',')) {
  const session = await subjects[name].open();
  if (!session.runFile) throw new Error(`${name} is no runtime that these tests can be run in`);
  const expected = expectations[name] ?? {};
  const seen = {};
  let [passed, failed] = [0, 0];
  console.log(`\n${subjects[name].title} ${session.version}`);
  for (const { file, scope } of [...files(), ...(subjects[name].isEmbedded ? filesOfTheDOM() : [])]) {
    const key = `${file} (${scope})`;
    const results = await run(session, file, scope);
    for (const [test, { status, message }] of Object.entries(results)) {
      if (status === 'PASS') passed++;
      else {
        failed++;
        (seen[key] ??= {})[test] = status;
      }
      compare(key, test, status, message, expected[key]?.[test]);
    }
    for (const test of Object.keys(expected[key] ?? {})) {
      if (!(test in results)) surprise(`${key}: ${test}: expected to fail, but there is no such test`);
    }
  }
  await session.close();
  if (values.update) expectations[name] = seen;
  console.log(`  ${passed} passed, ${failed} failed`);
}
if (values.update) writeFileSync(EXPECTATIONS, `${JSON.stringify(expectations, null, 2)}\n`);
else console.log(surprises === 0 ? '\nall as expected' : `\n${surprises} not as expected`);
process.exitCode = surprises > 0 && !values.update ? 1 : 0;

function compare(key, test, status, message, expected) {
  if (status === 'PASS' && expected) surprise(`${key}: ${test}: passes, though it is expected to fail (${expected})`);
  else if (status !== 'PASS' && !expected) surprise(`${key}: ${test}: ${status} ${message ?? ''}`);
  else if (values.verbose) console.log(`  as expected  ${key}: ${test}: ${status}`);
}

function surprise(what) {
  surprises++;
  if (!values.update) console.log(`  UNEXPECTED  ${what}`);
}

/** Each file with each scope that the file names and that exists outside of browsers. */
function* files() {
  let told = false;
  for (const file of readdirSync(path.join(checkout, 'web-locks')).sort()) {
    if (!file.includes(values.file) || file in LEFT_OUT) continue;
    if (file.startsWith('idlharness') && !existsSync(path.join(checkout, 'interfaces/web-locks.idl'))) {
      if (!told) console.log(`  left out: ${file}, for the checkout has no interfaces/web-locks.idl`);
      told = true;
      continue;
    }
    if (file === 'workers.https.html') yield { file, scope: 'window' };
    if (!file.endsWith('.any.js')) continue;
    const source = readFileSync(path.join(checkout, 'web-locks', file), 'utf8');
    // A file without a list is for both scopes. Only browsers have service workers and shared workers.
    const scopes = source.match(/^\/\/ META: global=(.*)$/m)?.[1].split(',') ?? ['window', 'dedicatedworker'];
    if (scopes.includes('window')) yield { file, scope: 'window' };
    if (scopes.includes('dedicatedworker')) yield { file, scope: 'worker' };
  }
}

function* filesOfTheDOM() {
  for (const folder of OF_THE_DOM.filter((folder) => existsSync(path.join(checkout, folder)))) {
    for (const file of readdirSync(path.join(checkout, folder)).sort()) {
      const isAsked = file.endsWith('.any.js') && !file.includes('shadowrealm') && file.includes(values.file);
      if (isAsked) yield { file: `/${folder}/${file}`, scope: 'window' };
    }
  }
}

/** @returns {Promise<Record<string, { status: string, message?: string }>>} */
async function run(session, file, scope) {
  const { code, signal, output, late } = await session.runFile({ checkout, file, scope }, DEADLINE);
  const results = {};
  let done = false;
  for (const line of output.split('\n')) {
    const [, kind, json] = line.match(/^@(begin|result|done) (.*)$/) ?? [];
    if (!kind) continue;
    const { name, status, message } = JSON.parse(json);
    if (kind === 'done') done = true;
    else if (kind === 'begin') results[name] ??= { status: late ? 'TIMEOUT' : 'CRASH' };
    else results[name] = { status, message };
  }
  if (!done && Object.keys(results).length === 0) {
    results['(the file)'] = { status: late ? 'TIMEOUT' : 'CRASH', message: `ended with ${signal ?? code}` };
  }
  return results;
}
