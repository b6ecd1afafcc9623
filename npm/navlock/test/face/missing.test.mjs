// The error if there is no addon that can be used: it says the cause, and what to do.

import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { test } from 'node:test';

import { runtimes } from '../runtimes.mjs';
import { navlock, run } from './programs.mjs';

const ASK = "require('navlock').locks.request('db', () => 'granted').then(console.log, ({ name, message }) => console.log(`${name}: ${message}`))";
const here = `${process.platform}-${process.arch}-gnu`;
const other = `${process.platform}-${process.arch}-musl`;

/**
 * A project in which navlock is installed with these packages for platforms, each with this addon.
 *
 * @param {Record<string, string | null>} packages  `null`: the addon that was built here
 */
function open(context, packages) {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'navlock-missing-')));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const modules = path.join(folder, 'node_modules');
  const root = path.dirname(path.dirname(navlock));
  for (const what of ['js', 'package.json']) cpSync(path.join(root, what), path.join(modules, 'navlock', what), { recursive: true });
  for (const [platform, text] of Object.entries(packages)) {
    const to = path.join(modules, '@navlock', platform);
    mkdirSync(to, { recursive: true });
    if (text === null) cpSync(path.join(root, 'navlock.node'), path.join(to, 'navlock.node'));
    else writeFileSync(path.join(to, 'navlock.node'), text);
  }
  const ask = (flags = [], before = '') => run([runtimes.node[0], ...flags, '-e', before + ASK], { cwd: folder, env: { NAVLOCK_REACH: 'process' } });
  return { folder, ask };
}

const linux = { skip: process.platform !== 'linux' && 'it is about the C libraries of Linux' };

test('with the package for the platform there is an addon', linux, async (context) => {
  assert.equal(await open(context, { [here]: null }).ask(), 'granted\n');
});

test('a platform that it is not built for', async (context) => {
  const said = await open(context, {}).ask([], "Object.defineProperty(process, 'platform', { value: 'freebsd' });");
  assert.match(said, /^Error: navlock: the addon cannot be used: it is built for Linux and macOS on x64 and arm64 and for Windows on x64, and this is freebsd on /);
});

test('optional dependencies that were left out', linux, async (context) => {
  const said = await open(context, {}).ask();
  assert.match(said, new RegExp(`: @navlock/${here} is not installed; install navlock again without leaving out optional dependencies \\(npm: --omit=optional, pnpm: --no-optional, yarn and pnpm: supportedArchitectures\\)`));
});

test('packages that were installed with another C library', linux, async (context) => {
  const said = await open(context, { [other]: 'no ELF' }).ask();
  assert.match(said, new RegExp(`: @navlock/${other} is installed, and this machine, linux on ${process.arch} with glibc, needs @navlock/${here}; do not copy node_modules`));
});

test('packages that were installed on another system', linux, async (context) => {
  const said = await open(context, { 'darwin-arm64': '' }).ask();
  assert.match(said, new RegExp(`: @navlock/darwin-arm64 is installed, and this machine, .*, needs @navlock/${here};`));
});

test('an addon that is damaged', linux, async (context) => {
  const said = await open(context, { [here]: 'no ELF' }).ask();
  assert.match(said, /: it is there, but cannot be loaded on linux on .* with glibc; install navlock again\nLooked at:\n[^]*navlock\.node: .*(invalid ELF header|file too short)/);
});

test('a Node that may load no addons', async (context) => {
  const { ask, folder } = open(context, { [here]: null });
  assert.match(await ask(['--no-addons']), /: this process may load no addons; start it without --no-addons\n/);
  const permissions = ['--permission', `--allow-fs-read=${folder}`];
  assert.match(await ask(permissions), /: this process may load no addons; start it with --allow-addons beside --permission\n/);
  assert.equal(await ask([...permissions, '--allow-addons', '--no-warnings']), 'granted\n');
});

test('a Deno that may load no addons', linux, async (context) => {
  const { folder } = open(context, { [here]: null });
  const script = path.join(folder, 'ask.cjs');
  writeFileSync(script, ASK);
  const said = await run([runtimes.deno[0], 'run', '--no-prompt', '--allow-read', '--allow-env', script], { cwd: folder, env: { NAVLOCK_REACH: 'process' } });
  assert.match(said, /: this process may load no addons; start it with --allow-ffi --allow-read --allow-env\n/);
});

test('a working folder that was removed', async (context) => {
  const { ask, folder } = open(context, { [here]: null });
  const said = await ask([], `require('navlock'); process.chdir(require('node:fs').mkdtempSync(${JSON.stringify(path.join(folder, 'gone-'))})); require('node:fs').rmdirSync(process.cwd());`);
  assert.match(said, /^Error: navlock: there is no bucket by default: the working folder cannot be used \(.*\); change to another one, or set NAVLOCK_BUCKET\n$/);
});
