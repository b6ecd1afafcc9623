// The package in test runners, in environments that replace Node's globals by those of a DOM.

import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { install } from '../install.mjs';
import { npm, root } from '../package/pack.mjs';
import { runtimes } from '../runtimes.mjs';

const folder = path.dirname(fileURLToPath(import.meta.url));
const modules = path.join(folder, 'node_modules');

before(() => {
  install(folder);
  // The package is installed: some runners treat files outside of node_modules as sources.
  const packed = mkdtempSync(path.join(tmpdir(), 'navlock-environments-'));
  try {
    npm(root, 'pack', '--pack-destination', packed);
    rmSync(path.join(modules, 'navlock'), { recursive: true, force: true });
    mkdirSync(path.join(modules, 'navlock'));
    execFileSync('tar', ['-xzf', path.join(packed, readdirSync(packed)[0]), '--strip-components=1', '-C', path.join(modules, 'navlock')]);
  } finally {
    rmSync(packed, { recursive: true, force: true });
  }
});

const vitest = (...words) => ['vitest/vitest.mjs', 'run', ...words];
const jest = (...words) => ['jest/bin/jest.js', '--ci', ...words];
const happyDom = '@happy-dom/jest-environment';

/**
 * Runs a test runner to its end, in a folder of this one. No broker can be started. Returns the exit code and the
 * output.
 */
async function run(runtime, where, [file, ...words]) {
  const [node, ...flags] = runtimes[runtime];
  const cwd = path.join(folder, where);
  const env = { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0', NAVLOCK_BIN: '/nowhere/navlock', NAVLOCK_SOCKET: path.join(modules, 'none', 'sock') };
  const vm = words.includes('--esm') ? ['--experimental-vm-modules'] : [];
  const rest = words.filter((word) => word !== '--esm');
  const ended = promisify(execFile)(node, [...flags, ...vm, path.join(modules, file), ...rest], { cwd, env, timeout: 110_000 });
  const { code = 0, stdout, stderr } = await ended.catch((error) => error);
  return { code, printed: `${stdout}\n${stderr}` };
}

function testWays(ways, where, says, on = ['node', 'node20']) {
  for (const [what, words] of Object.entries(ways)) {
    for (const runtime of on) {
      test(`in ${what} on ${runtime}, ${says}`, { timeout: 120_000 }, async () => {
        const { code, printed } = await run(runtime, where, words);
        assert.equal(code, 0, printed);
      });
    }
  }
}

testWays({
  'vitest with jsdom': vitest('--environment', 'jsdom'),
  'vitest with happy-dom': vitest('--environment', 'happy-dom'),
  'jest with jsdom': jest('--testMatch', '**/in-jest.cjs', '--env', 'jsdom'),
  'jest with happy-dom': jest('--testMatch', '**/in-jest.cjs', '--env', happyDom),
}, '.', 'locks are as they are everywhere');

const oneProcess = ['--no-isolate', '--no-file-parallelism'];
testWays({
  'vitest': vitest(),
  'vitest with jsdom': vitest('--environment', 'jsdom'),
  'vitest with happy-dom': vitest('--environment', 'happy-dom'),
  'one thread of vitest': vitest(...oneProcess),
  'one thread of vitest with jsdom': vitest(...oneProcess, '--environment', 'jsdom'),
  'contexts of vitest with jsdom': vitest('--pool', 'vmThreads', '--environment', 'jsdom'),
  'contexts of vitest with happy-dom': vitest('--pool', 'vmThreads', '--environment', 'happy-dom'),
  // The tests run in jest's own process, which does not end while anything in it waits.
  'jest': jest('--config', 'jest.config.json', '--runInBand'),
  'jest with jsdom': jest('--config', 'jest.config.json', '--runInBand', '--env', 'jsdom'),
  'jest with happy-dom': jest('--config', 'jest.config.json', '--runInBand', '--env', happyDom),
}, 'setup', 'navlock/test gives each file locks of its own, which end with it');

// Only on the newest Node: on Node 20 jest fails when its window is closed, with or without our locks.
testWays({
  'vitest': vitest(),
  'jest': jest('--config', 'jest.config.json'),
}, 'setup/closing', 'navlock/test ends a window of jsdom that is closed, with its frames', ['node']);

testWays({
  'jest': jest('--esm', '--config', 'jest.config.json'),
  'jest with jsdom': jest('--esm', '--config', 'jest.config.json', '--env', 'jsdom'),
}, 'setup/globally', 'navlock/test works in ECMAScript modules, without global functions, with fake timers from the start');

test('jest that loads navlock/test before it can say when a file ends is told where to name it', { timeout: 120_000 }, async () => {
  const { code, printed } = await run('node', 'setup/wrong', jest('--config', 'jest.config.json'));
  assert.equal(code, 1);
  assert.match(printed, /navlock\/test: nothing here says when a test file ends; .* in setupFilesAfterEnv \(not setupFiles\) of jest/);
});
