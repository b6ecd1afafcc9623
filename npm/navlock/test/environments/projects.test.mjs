// The package in projects as people have them, set up only as the README and the book say: the code for it is taken
// from their examples.

import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after, before, suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { install } from '../install.mjs';
import { npm, root } from '../package/pack.mjs';
import { runtimes } from '../runtimes.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const modules = path.join(here, 'node_modules');
const pages = ['README.md', '../../docs/javascript-tools.md'].map((page) => readFileSync(path.join(root, page), 'utf8'));

/** The one example of the README or the book that begins with this text. */
function example(begin) {
  const found = pages.join('\n').split('```').filter((part, index) => index % 2 === 1).map((part) => part.slice(part.indexOf('\n') + 1));
  const [only, ...more] = found.filter((code) => code.startsWith(begin));
  assert.ok(only !== undefined && more.length === 0, `there is one example that begins with ${begin}`);
  return only;
}

/** An app that uses locks, and its tests. */
const APP = `
export async function save(storage, value) {
  return await navigator.locks.request('storage', async () => {
    const before = storage.value;
    await Promise.resolve();
    storage.value = before + value;
    return storage.value;
  });
}

/** Leads until the page is left. */
export const lead = () => navigator.locks.request('leader', () => new Promise(() => {}));
`;
const TESTS = `
test('nobody else is in the storage', async () => {
  const storage = { value: 0 };
  document.body.textContent = 'a page';
  await Promise.all([save(storage, 1), save(storage, 2)]);
  expect(storage.value).toBe(3);
});

test('each file has a leader', async () => {
  expect((await navigator.locks.query()).held).toEqual([]);
  lead();
  expect((await navigator.locks.query()).held).toHaveLength(1);
});
`;

suite('in a project', () => {
  let folder;
  let tarball;

  before(() => {
    install(here);
    folder = mkdtempSync(path.join(tmpdir(), 'navlock-projects-'));
    mkdirSync(path.join(folder, 'packed'));
    const name = npm(root, 'pack', '--pack-destination', path.join(folder, 'packed')).trim();
    tarball = path.join(folder, 'packed', name);
    symlinkSync(modules, path.join(folder, 'node_modules'));
  });
  after(() => {
    execFileSync(path.join(root, 'bin', 'navlock'), ['daemon', 'stop', '--socket', environment().NAVLOCK_SOCKET], { stdio: 'ignore' });
    rmSync(folder, { recursive: true, force: true, maxRetries: 100, retryDelay: 10 });
  });

  /** An environment without the variables that would decide the tests, and with a broker of our own. */
  function environment() {
    const inherited = Object.entries(process.env).filter(([name]) => !/^(NAVLOCK_|NODE_|npm_config_)/.test(name));
    return { ...Object.fromEntries(inherited), NAVLOCK_SOCKET: path.join(folder, 'sock'), NO_COLOR: '1', FORCE_COLOR: '0' };
  }

  /** Makes a project, and installs navlock in it as the README says. Other packages are found in the folder above. */
  function openProject(name, type) {
    const project = path.join(folder, name);
    mkdirSync(project);
    writeFileSync(path.join(project, 'package.json'), JSON.stringify({ name, private: true, type }));
    npm(project, 'install', tarball);
    return project;
  }

  /** Runs a program to its end. Returns its output. Fails if the program does. */
  async function run(cwd, file, ...words) {
    const [node, ...flags] = runtimes.node;
    const ended = promisify(execFile)(node, [...flags, path.join(modules, file), ...words], { cwd, env: environment(), timeout: 110_000 });
    const { stdout, stderr } = await ended.catch(({ stdout, stderr }) => assert.fail(`${stdout}\n${stderr}`));
    return `${stdout}\n${stderr}`;
  }

  test('of vite, vitest and jsdom', { timeout: 240_000 }, async () => {
    const project = openProject('vite-app', 'module');
    writeFileSync(path.join(project, 'vitest.config.mjs'), example('// vitest.config.mjs'));
    writeFileSync(path.join(project, 'app.js'), APP);
    for (const file of ['one.test.js', 'two.test.js']) {
      writeFileSync(path.join(project, file), `import { expect, test } from 'vitest';\nimport { lead, save } from './app.js';\n${TESTS}`);
    }
    assert.match(await run(project, 'vitest/vitest.mjs', 'run'), /Tests +4 passed/);
  });

  test('of jest and jsdom', { timeout: 240_000 }, async () => {
    const project = openProject('jest-app', 'commonjs');
    writeFileSync(path.join(project, 'jest.config.mjs'), example('// jest.config.mjs'));
    writeFileSync(path.join(project, 'app.js'), `${APP.replaceAll('export ', '')}\nmodule.exports = { lead, save };\n`);
    for (const file of ['one.test.js', 'two.test.js']) {
      writeFileSync(path.join(project, file), `const { lead, save } = require('./app.js');\n${TESTS}`);
    }
    assert.match(await run(project, 'jest/bin/jest.js', '--ci'), /Tests: +4 passed/);
  });

  test('of several packages, a workspace of pnpm, which have the same locks', { timeout: 240_000 }, async () => {
    const workspace = path.join(folder, 'workspace');
    mkdirSync(workspace);
    writeFileSync(path.join(workspace, 'package.json'), '{ "name": "workspace", "private": true }\n');
    writeFileSync(path.join(workspace, 'pnpm-workspace.yaml'), 'packages: ["packages/*"]\n');
    // The first program of the README, with something to do under the lock: it waits for the end of its input.
    const program = example("import { locks } from 'navlock';\n\nawait locks.request('my_resource'")
      .replace(/^  \/\/ .*$/m, "  console.log('held');\n  for await (const _ of process.stdin);");
    assert.match(program, /held/);
    const pnpm = path.join(modules, 'pnpm', 'bin', 'pnpm.cjs');
    const folders = ['api', 'jobs'].map((name) => {
      const at = path.join(workspace, 'packages', name);
      mkdirSync(at, { recursive: true });
      writeFileSync(path.join(at, 'package.json'), JSON.stringify({ name, private: true, type: 'module' }));
      writeFileSync(path.join(at, 'main.js'), program);
      execFileSync(process.execPath, [pnpm, 'add', '--offline', '--store-dir', path.join(folder, 'store'), tarball], { cwd: at, env: environment(), stdio: ['ignore', 'ignore', 'inherit'] });
      return at;
    });
    const [api, jobs] = folders.map((cwd) => () => {
      const child = spawn(runtimes.node[0], ['main.js'], { cwd, env: environment(), stdio: ['pipe', 'pipe', 'inherit'] });
      return { child, held: once(child.stdout, 'data'), ended: once(child, 'exit') };
    });
    const first = api();
    await first.held;
    const second = jobs();
    const query = () => execFileSync(process.execPath, [pnpm, 'exec', 'navlock', '--project', 'query', '--json'], { cwd: folders[1], env: environment(), encoding: 'utf8' });
    while (!/"state": ?"pending"/.test(query())) assert.equal(second.child.exitCode, null);
    first.child.stdin.end();
    assert.deepEqual(await first.ended, [0, null]);
    await second.held;
    second.child.stdin.end();
    assert.deepEqual(await second.ended, [0, null]);
  });
});
