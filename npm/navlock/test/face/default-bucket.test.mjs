// The bucket of a program that names none.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { test } from 'node:test';

import { runtimes } from '../runtimes.mjs';
import { navlock, run } from './programs.mjs';

const { findProject } = createRequire(navlock)('./project.cjs');
/** The command passes these cases as well. */
const CASES = JSON.parse(readFileSync(new URL('../projects.json', import.meta.url), 'utf8'));
const ORIGIN = JSON.stringify(path.join(path.dirname(navlock), 'origin.cjs'));
const PRINT = `console.log(require(${ORIGIN}).defaultBucket())`;

/** Makes a folder with these files. Returns it, with a function that asks a program in the folder for its bucket. */
function open(context, files) {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'navlock-bucket-')));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  }
  return {
    folder,
    bucket: async (words, cwd = '', file = process.execPath) => {
      const printed = (await run([file, ...words], { cwd: path.join(folder, cwd) })).trim();
      return path.relative(folder, printed);
    },
  };
}

const named = (name) => JSON.stringify({ name });

test('a program belongs to the nearest project above its script, wherever it runs', async (context) => {
  const { folder, bucket } = open(context, {
    'package.json': named('all'), 'one/package.json': named('one'), 'one/bin/main.js': PRINT, 'two/deno.json': '{}', 'two/main.js': PRINT, 'main.js': PRINT,
    'three/deno.jsonc': '{ // a comment\n}', 'three/main.js': PRINT,
  });
  assert.equal(await bucket(['one/bin/main.js']), 'one');
  assert.equal(await bucket([path.join(folder, 'one/bin/main.js')], 'two'), 'one');
  assert.equal(await bucket(['../one/bin/main'], 'two'), 'one');
  assert.equal(await bucket(['two/main.js']), 'two');
  assert.equal(await bucket(['three/main.js']), 'three');
  assert.equal(await bucket(['main.js']), '');
});

test('a pipe in place of a manifest is not waited for', (context) => {
  const { folder } = open(context, { 'package.json': named('all'), 'one/file': '' });
  execFileSync('mkfifo', [path.join(folder, 'one', 'package.json')]);
  assert.equal(findProject(path.join(folder, 'one')), folder);
});

for (const { files, projects, what } of CASES) {
  test(`the project of a folder: ${what}`, (context) => {
    const { folder } = open(context, files);
    for (const [at, project] of Object.entries(projects)) {
      mkdirSync(path.join(folder, at), { recursive: true });
      const found = findProject(path.join(folder, at)) ?? path.join(folder, at);
      assert.equal(path.relative(folder, found), project, at);
    }
  });
}

test('a script below the root of a workspace belongs to the workspace, and so does a tool that it has installed', async (context) => {
  const { bucket } = open(context, {
    'package.json': named('outside'), 'main.js': PRINT, 'repo/pnpm-workspace.yaml': 'packages: [apps/*]\n', 'repo/package.json': '{}',
    'repo/apps/web/package.json': named('web'), 'repo/apps/web/main.js': PRINT, 'repo/apps/web/node_modules/tool/main.js': PRINT, 'repo/node_modules/tool/main.js': PRINT,
  });
  for (const script of ['apps/web/main.js', 'node_modules/tool/main.js', 'apps/web/node_modules/tool/main.js']) {
    assert.equal(await bucket([`repo/${script}`]), 'repo', script);
  }
  assert.equal(await bucket(['-e', PRINT], 'repo/apps'), 'repo');
  assert.equal(await bucket(['main.js']), '');
});

test('a script that is a link belongs where it really is', async (context) => {
  const { folder, bucket } = open(context, {
    'package.json': named('all'), 'one/package.json': named('one'), 'one/main.js': PRINT, 'two/package.json': named('two'),
  });
  symlinkSync(path.join(folder, 'one/main.js'), path.join(folder, 'two/link.js'));
  symlinkSync(path.join(folder, 'one'), path.join(folder, 'three'));
  assert.equal(await bucket(['two/link.js']), 'one');
  assert.equal(await bucket(['three/main.js']), 'one');
});

test('a script of a dependency belongs to the project that has installed it', async (context) => {
  const inner = 'app/node_modules/tool/node_modules/helper';
  const { bucket } = open(context, {
    'app/package.json': named('app'), 'app/node_modules/tool/package.json': named('tool'), 'app/node_modules/tool/main.js': PRINT,
    [`${inner}/package.json`]: named('helper'), [`${inner}/main.js`]: PRINT,
  });
  assert.equal(await bucket(['node_modules/tool/main.js'], 'app'), 'app');
  assert.equal(await bucket([`${inner}/main.js`]), 'app');
});

for (const [what, place, beside] of [
  ['npx', '.npm/_npx/314823f44d6fec11', '{"dependencies":{"tool":"1"},"_npx":{"packages":["tool"]}}'],
  ['bunx', 'tmp/bunx-0-tool@latest', '{}'],
  ['pnpm', '.local/share/pnpm/global/5', '{"dependencies":{"tool":"1"}}'],
  ['deno install', '.deno/bin/.tool', '{"dependencies":{"tool":"1"}}'],
  ['npm', '.nvm/versions/node/v26/lib', null],
]) {
  test(`a tool that ${what} runs from outside of any project belongs to the folder it is used in`, async (context) => {
    const { folder, bucket } = open(context, {
      'package.json': named('home'), '.nvm/package.json': named('nvm'), 'app/package.json': named('app'), 'app/src/file': '', 'loose/file': '',
      [`${place}/node_modules/tool/package.json`]: named('tool'), [`${place}/node_modules/tool/main.js`]: PRINT,
      ...(beside && { [`${place}/package.json`]: beside }), '.deno/bin/.tool/deno.json': '{"workspace":[]}',
    });
    const tool = path.join(folder, place, 'node_modules/tool/main.js');
    assert.equal(await bucket([tool], 'app/src'), 'app');
    assert.equal(await bucket([tool], 'loose'), '');
  });
}

test('a tool that Deno runs from its cache belongs to the folder it is used in', async (context) => {
  const place = 'cache/npm/registry.example/@scope/tool';
  const { folder, bucket } = open(context, {
    [`${place}/registry.json`]: '{}', [`${place}/1.0.0/package.json`]: named('@scope/tool'), [`${place}/1.0.0/bin/main.cjs`]: PRINT,
    'app/package.json': named('app'), 'app/src/file': '',
  });
  const words = [...runtimes.deno.slice(1), path.join(folder, place, '1.0.0/bin/main.cjs')];
  assert.equal(await bucket(words, 'app/src', runtimes.deno[0]), 'app');
});

test('without a script the working folder decides', async (context) => {
  const { bucket } = open(context, { 'app/package.json': named('app'), 'app/src/file': '' });
  assert.equal(await bucket(['-e', PRINT], 'app/src'), 'app');
  assert.equal(await bucket(['-p', `0; ${PRINT}; 0`], 'app').then((printed) => printed.split('\n')[0]), 'app');
});

for (const [name, ways] of [
  ['node', [['-e', PRINT], ['--eval', PRINT], [`--eval=${PRINT}`], ['-pe', PRINT], ['--input-type=commonjs', '-e', PRINT]]],
  ['node20', [['-e', PRINT], ['-pe', PRINT]]],
  ['deno', [['eval', 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' + PRINT]]],
  ['bun', [['-e', PRINT]]],
]) {
  test(`an argument after code that ${name} is given is not its script`, async (context) => {
    const { folder, bucket } = open(context, { 'app/package.json': named('app'), 'app/src/file': '', 'other/package.json': named('other'), 'other/file': '' });
    for (const way of ways) {
      const printed = await bucket([...way, path.join(folder, 'other/file')], 'app/src', runtimes[name][0]);
      assert.equal(printed.split('\n')[0], 'app', way[0]);
    }
  });
}

test('a script that is in no project falls back to the working folder', async (context) => {
  const { folder, bucket } = open(context, { 'loose/main.js': PRINT, 'app/package.json': named('app'), 'app/src/file': '' });
  assert.equal(await bucket([path.join(folder, 'loose/main.js')], 'app/src'), 'app');
  assert.equal(await bucket(['main.js'], 'loose'), 'loose');
});

test('a worker thread has the bucket of its process', async (context) => {
  const { bucket } = open(context, {
    'one/package.json': named('one'),
    'one/main.js': `require(${ORIGIN}); new (require('node:worker_threads').Worker)(require('node:path').join(__dirname, '../two/worker.js'));`,
    'two/package.json': named('two'), 'two/worker.js': PRINT,
  });
  assert.equal(await bucket(['one/main.js']), 'one');
});

for (const [name, words] of Object.entries(runtimes)) {
  test(`on ${name} a worker thread with another environment shares the locks of its process, unless it names others`, async (context) => {
    const settings = JSON.stringify(path.join(path.dirname(navlock), 'settings.cjs'));
    const { folder } = open(context, {
      'main.cjs': `
        const { Worker } = require('node:worker_threads');
        require(${JSON.stringify(navlock)});
        const ask = (env) => new Promise((resolve, reject) => {
          new Worker(require('node:path').join(__dirname, 'worker.cjs'), { env }).on('message', resolve).on('error', reject);
        });
        (async () => console.log(JSON.stringify([await ask({}), await ask({ HOME: '/' }), await ask({ NAVLOCK_BUCKET: 'own' })])))();
      `,
      'worker.cjs': `
        const { settings: { bucket, reach } } = require(${settings});
        require('node:worker_threads').parentPort.postMessage([reach, bucket]);
      `,
    });
    const env = { NAVLOCK_REACH: 'process', NAVLOCK_BUCKET: 'shop' };
    const printed = await run([...words, path.join(folder, 'main.cjs')], { env });
    assert.deepEqual(JSON.parse(printed), [['process', 'shop'], ['process', 'shop'], ['process', 'own']]);
  });
}

test('a program that is in a project needs no working folder', async (context) => {
  const { bucket } = open(context, {
    'app/package.json': named('app'), 'app/gone/file': '',
    'app/main.js': `require('node:fs').rmSync(process.cwd(), { recursive: true }); ${PRINT}`,
  });
  assert.equal(await bucket(['../main.js'], 'app/gone'), 'app');
});
