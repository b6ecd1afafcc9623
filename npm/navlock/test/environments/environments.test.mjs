// The package in test runners, in environments that have put a DOM's globals in the place of Node's.

import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { runtimes } from '../runtimes.mjs';

const folder = path.dirname(fileURLToPath(import.meta.url));
const modules = path.join(folder, 'node_modules');

before(() => {
  const lock = path.join(modules, '.package-lock.json');
  if (!existsSync(lock) || statSync(lock).mtimeMs < statSync(path.join(folder, 'package-lock.json')).mtimeMs) npm(folder, 'ci');
  // As it is when it is installed: what is outside of node_modules some runners treat as sources.
  const packed = mkdtempSync(path.join(tmpdir(), 'navlock-environments-'));
  try {
    npm(path.join(folder, '..', '..'), 'pack', '--pack-destination', packed);
    rmSync(path.join(modules, 'navlock'), { recursive: true, force: true });
    mkdirSync(path.join(modules, 'navlock'));
    execFileSync('tar', ['-xzf', path.join(packed, readdirSync(packed)[0]), '--strip-components=1', '-C', path.join(modules, 'navlock')]);
  } finally {
    rmSync(packed, { recursive: true, force: true });
  }
});

function npm(cwd, ...words) {
  execFileSync('npm', [...words, '--silent', '--no-audit', '--no-fund'], { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
}

const ways = {
  'vitest with jsdom': ['vitest/vitest.mjs', 'run', '--environment', 'jsdom'],
  'vitest with happy-dom': ['vitest/vitest.mjs', 'run', '--environment', 'happy-dom'],
  'jest with jsdom': ['jest/bin/jest.js', '--ci', '--testMatch', '**/in-jest.cjs', '--env', 'jsdom'],
  'jest with happy-dom': ['jest/bin/jest.js', '--ci', '--testMatch', '**/in-jest.cjs', '--env', '@happy-dom/jest-environment'],
};

for (const [what, [file, ...words]] of Object.entries(ways)) {
  for (const runtime of ['node', 'node20']) {
    test(`in ${what} on ${runtime}, locks are as they are everywhere`, { timeout: 120_000 }, async () => {
      const [node, ...flags] = runtimes[runtime];
      const env = { ...process.env, NAVLOCK_REACH: 'process', NO_COLOR: '1', FORCE_COLOR: '0' };
      const ended = promisify(execFile)(node, [...flags, path.join(modules, file), ...words], { cwd: folder, env, timeout: 110_000 });
      await ended.catch(({ stdout, stderr }) => assert.fail(`${stdout}\n${stderr}`));
    });
  }
}
