// The JavaScript examples of the READMEs and the book: each one runs as it stands there.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';

import { runtimes } from '../runtimes.mjs';
import { openPlace } from '../kit/place.mjs';

const root = path.join(import.meta.dirname, '..', '..');
const sources = path.join(root, '..', '..');
const book = readdirSync(path.join(sources, 'docs')).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`);
const pages = ['README.md', 'npm/navlock/README.md', ...book];

/** The examples of a page, except for those that configure a test runner: `test/environments` runs these. */
function examples(page) {
  const parts = readFileSync(path.join(sources, page), 'utf8').split('```');
  const blocks = parts.filter((part, index) => index % 2 === 1 && part.startsWith('js\n'));
  return blocks.map((part) => part.slice('js\n'.length)).filter((code) => !/^\/\/ \w+\.config\.mjs/.test(code));
}

/** The code around an example. It defines everything that the example uses and does not show. */
const AROUND = `
import * as navlock from 'navlock';

const done = async () => {};
const saved = { access: 'old', refresh: 'once' };
Object.assign(globalThis, navlock, {
  read: done, write: done, move: done, backup: done, serve: done, fetch: done, url: 'http://127.0.0.1/',
  readSession: async () => saved,
  writeSession: done,
  isExpired: ({ access }) => access === 'old',
  refresh: async () => ({ access: 'new', refresh: 'once more' }),
});
// Who looks goes on looking: the first news are enough.
const { log } = console;
console.log = (...words) => { log(...words); process.exit(0); };
`;

/** Code that uses the recipe, as a reader would write it below. */
const BELOW = `
if ((await accessToken()) !== 'new') throw new Error('it was not refreshed');
`;

suite('an example', () => {
  let count = 0;
  for (const page of pages) {
    for (const [index, code] of examples(page).entries()) {
      count++;
      test(`${index + 1} of ${page} runs`, async (context) => {
        const { socket, remove } = openPlace();
        context.after(remove);
        const [node, ...flags] = runtimes.node;
        const below = code.includes('function accessToken()') ? BELOW : '';
        const words = [...flags, '--import', 'navlock/register', '--input-type=module', '--eval', AROUND + code + below];
        const env = { ...process.env, NAVLOCK_SOCKET: socket, NAVLOCK_REACH: 'machine', NAVLOCK_BUCKET: 'book' };
        await promisify(execFile)(node, words, { cwd: root, env, timeout: 20_000 });
      });
    }
  }
  test('is found on many pages', () => assert.ok(count >= 12, `${count} are found`));
});

test('the recipe that two processes are tested with is that of the book', () => {
  const [recipe, ...more] = examples('docs/recipes.md').filter((code) => code.includes('function accessToken()'));
  assert.equal(more.length, 0);
  const tested = readFileSync(path.join(import.meta.dirname, 'session.mjs'), 'utf8');
  assert.ok(tested.includes(recipe.slice(recipe.indexOf('function accessToken()'))));
});
