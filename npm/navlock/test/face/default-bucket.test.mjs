// Which bucket is meant when none is named.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { test } from 'node:test';

import { navlock, run } from './programs.mjs';

const ORIGIN = JSON.stringify(path.join(path.dirname(navlock), 'origin.cjs'));
const PRINT = `console.log(require(${ORIGIN}).defaultBucket())`;

/** A folder with these files, and a way to ask a program in it for its bucket. */
function open(context, files) {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'navlock-bucket-')));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  }
  return {
    folder,
    bucket: async (words, cwd = '') => {
      const printed = (await run([process.execPath, ...words], { cwd: path.join(folder, cwd) })).trim();
      return path.relative(folder, printed);
    },
  };
}

test('a program belongs to the nearest package above its script, wherever it runs', async (context) => {
  const { folder, bucket } = open(context, {
    'package.json': '{}', 'one/package.json': '{}', 'one/bin/main.js': PRINT, 'two/deno.json': '{}', 'two/main.js': PRINT, 'main.js': PRINT,
  });
  assert.equal(await bucket(['one/bin/main.js']), 'one');
  assert.equal(await bucket([path.join(folder, 'one/bin/main.js')], 'two'), 'one');
  assert.equal(await bucket(['../one/bin/main'], 'two'), 'one');
  assert.equal(await bucket(['two/main.js']), 'two');
  assert.equal(await bucket(['main.js']), '');
});

test('a script that is a link belongs where it really is', async (context) => {
  const { folder, bucket } = open(context, { 'package.json': '{}', 'one/package.json': '{}', 'one/main.js': PRINT, 'two/package.json': '{}' });
  symlinkSync(path.join(folder, 'one/main.js'), path.join(folder, 'two/link.js'));
  symlinkSync(path.join(folder, 'one'), path.join(folder, 'three'));
  assert.equal(await bucket(['two/link.js']), 'one');
  assert.equal(await bucket(['three/main.js']), 'one');
});

test('a script of a dependency belongs to the package that has installed it', async (context) => {
  const inner = 'app/node_modules/tool/node_modules/helper';
  const { bucket } = open(context, {
    'app/package.json': '{}', 'app/node_modules/tool/package.json': '{}', 'app/node_modules/tool/main.js': PRINT,
    [`${inner}/package.json`]: '{}', [`${inner}/main.js`]: PRINT,
  });
  assert.equal(await bucket(['node_modules/tool/main.js'], 'app'), 'app');
  assert.equal(await bucket([`${inner}/main.js`]), 'app');
});

test('without a script the working folder decides', async (context) => {
  const { bucket } = open(context, { 'app/package.json': '{}', 'app/src/file': '' });
  assert.equal(await bucket(['-e', PRINT], 'app/src'), 'app');
  assert.equal(await bucket(['-p', `0; ${PRINT}; 0`], 'app').then((printed) => printed.split('\n')[0]), 'app');
});

test('a script that is in no package falls back to the working folder', async (context) => {
  const { folder, bucket } = open(context, { 'loose/main.js': PRINT, 'app/package.json': '{}', 'app/src/file': '' });
  assert.equal(await bucket([path.join(folder, 'loose/main.js')], 'app/src'), 'app');
  assert.equal(await bucket(['main.js'], 'loose'), 'loose');
});

test('a worker thread has the bucket of its process', async (context) => {
  const { bucket } = open(context, {
    'one/package.json': '{}',
    'one/main.js': `require(${ORIGIN}); new (require('node:worker_threads').Worker)(require('node:path').join(__dirname, '../two/worker.js'));`,
    'two/package.json': '{}', 'two/worker.js': PRINT,
  });
  assert.equal(await bucket(['one/main.js']), 'one');
});

test('a program that is in a package needs no working folder', async (context) => {
  const { bucket } = open(context, {
    'app/package.json': '{}', 'app/gone/file': '',
    'app/main.js': `require('node:fs').rmSync(process.cwd(), { recursive: true }); ${PRINT}`,
  });
  assert.equal(await bucket(['../main.js'], 'app/gone'), 'app');
});
