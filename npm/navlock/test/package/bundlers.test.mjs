// The package in programs that bundlers and tracers make, as the README says.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { after, before, suite, test } from 'node:test';

import commonjs from '@rollup/plugin-commonjs';
import { nodeResolve } from '@rollup/plugin-node-resolve';
import { nodeFileTrace } from '@vercel/nft';
import esbuild from 'esbuild';
import { rollup } from 'rollup';
import { build } from 'vite';
import webpack from 'webpack';

import { runtimes } from '../runtimes.mjs';
import { isForHere, layouts, npm } from './pack.mjs';

const ncc = createRequire(import.meta.url).resolve('@vercel/ncc/dist/ncc/cli.js');

const USE = "locks.request('db', (lock) => console.log('granted', lock.name)).catch(({ message }) => console.log(message));\n";

suite('bundled', () => {
  let folder;
  let project;
  const inProject = (...words) => path.join(project, ...words);

  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'navlock-bundled-'));
    project = path.join(folder, 'project');
    mkdirSync(project);
    mkdirSync(path.join(folder, 'packed'));
    writeFileSync(inProject('package.json'), '{ "name": "bundled", "private": true }\n');
    // The layout that is released.
    const pack = Object.values(layouts).at(-1);
    npm(project, 'install', ...pack(path.join(folder, 'packed')).filter(isForHere));
    writeFileSync(inProject('main.mjs'), `import { locks } from 'navlock';\n${USE}`);
    writeFileSync(inProject('main.cjs'), `const { locks } = require('navlock');\n${USE}`);
  });
  after(() => {
    stopBroker();
    rmSync(folder, { recursive: true, force: true, maxRetries: 100, retryDelay: 10 });
  });

  /**
   * An environment with a broker of our own, and without a `navlock` in the PATH that could be started as the broker.
   */
  function environment() {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('NAVLOCK_') && !name.startsWith('NODE_'));
    return { ...Object.fromEntries(inherited), PATH: '/usr/bin:/bin', NAVLOCK_SOCKET: path.join(folder, 'sock') };
  }

  // Started by the path of this Node, which may not be in that PATH.
  const stopBroker = () =>
    execFileSync(process.execPath, [inProject('node_modules', '.bin', 'navlock'), 'daemon', 'stop'], { env: environment(), stdio: 'ignore' });

  /** Runs a program, and returns its output. */
  function run([file, ...words], cwd = folder) {
    stopBroker();
    return execFileSync(file, words, { cwd, env: environment(), encoding: 'utf8', timeout: 30_000 }).trim();
  }
  const granted = (...words) => assert.equal(run([...runtimes.node, ...words]), 'granted db');

  const bundleWith = (options) => esbuild.build({
    absWorkingDir: project, entryPoints: ['main.mjs'], bundle: true, platform: 'node', logLevel: 'silent', ...options,
  });

  test('esbuild, for CommonJS, without a warning', async () => {
    const { warnings } = await bundleWith({ outfile: 'dist/esbuild.cjs' });
    assert.deepEqual(warnings, []);
    granted(inProject('dist/esbuild.cjs'));
  });

  test('esbuild, for ECMAScript modules, with packages left out', async () => {
    await bundleWith({ format: 'esm', outfile: 'dist/esbuild.mjs', external: ['navlock'] });
    granted(inProject('dist/esbuild.mjs'));
  });

  test('rollup, with packages left out and with packages in the bundle', async () => {
    for (const [file, plugins] of [['rollup-external.mjs', []], ['rollup.mjs', [nodeResolve({ rootDir: project }), commonjs()]]]) {
      const made = await rollup({ input: inProject('main.mjs'), plugins, onwarn: () => {} });
      await made.write({ file: inProject('dist', file), format: 'es' });
      await made.close();
      granted(inProject('dist', file));
    }
  });

  test('webpack', async () => {
    const options = { context: project, mode: 'production', target: 'node20', entry: './main.mjs', output: { path: inProject('dist'), filename: 'webpack.cjs' } };
    const stats = await new Promise((resolve, reject) => webpack(options, (error, stats) => (error ? reject(error) : resolve(stats))));
    const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true });
    assert.deepEqual([...errors, ...warnings], []);
    granted(inProject('dist/webpack.cjs'));
  });

  test('vite, for servers, with packages left out and with packages in the bundle', async () => {
    for (const [outDir, ssr] of [['dist/vite-external', {}], ['dist/vite', { noExternal: true }]]) {
      await build({ root: project, configFile: false, logLevel: 'error', build: { ssr: 'main.mjs', outDir }, ssr });
      granted(inProject(outDir, 'main.mjs'));
    }
  });

  test('@vercel/nft finds all that a program needs', async () => {
    const { fileList } = await nodeFileTrace([inProject('main.mjs')], { base: project, processCwd: project });
    const traced = path.join(folder, 'traced');
    for (const file of fileList) cpSync(inProject(file), path.join(traced, file), { verbatimSymlinks: true });
    granted(path.join(traced, 'main.mjs'));
  });

  test('ncc, with --external navlock', () => {
    execFileSync(process.execPath, [ncc, 'build', 'main.cjs', '--external', 'navlock', '--quiet', '--out', 'dist/ncc'], { cwd: project });
    granted(inProject('dist/ncc/index.cjs'));
  });

  test('bun build --compile, with node_modules/@navlock beside the executable', () => {
    const copy = path.join(folder, 'copy');
    cpSync(project, copy, { recursive: true, verbatimSymlinks: true });
    const bun = runtimes.bun[0];
    const away = path.join(folder, 'away');
    execFileSync(bun, ['build', '--compile', 'main.mjs', '--outfile', path.join(away, 'app')], { cwd: copy, stdio: 'ignore' });
    mkdirSync(path.join(away, 'node_modules'));
    renameSync(path.join(copy, 'node_modules', '@navlock'), path.join(away, 'node_modules', '@navlock'));
    rmSync(copy, { recursive: true });
    assert.equal(run([path.join(away, 'app')], '/'), 'granted db');
    renameSync(path.join(away, 'node_modules'), path.join(away, 'other'));
    assert.match(run([path.join(away, 'app')], '/'), /this is a bundle, which has navlock's JavaScript alone; have node_modules\/@navlock\/.* beside it, or leave navlock out of it/);
  });

  test('a bundle that is moved away from what is installed says so', async () => {
    await bundleWith({ outfile: path.join(folder, 'moved.cjs') });
    const moved = [...runtimes.node, path.join(folder, 'moved.cjs')];
    // In the folder of the project, too: the package is not taken from the working folder.
    for (const cwd of [folder, project]) assert.match(run(moved, cwd), /^navlock: the addon cannot be used: this is a bundle/);
  });
});
