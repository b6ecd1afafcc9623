'use strict';
// The optional packages that carry what is built for a platform: the addon and the `navlock`
// program. npm installs those that fit the machine.

const { existsSync, readFileSync } = require('node:fs');
const path = require('node:path');
const process = require('node:process');

/** This package's own folder, where a local build puts both. */
const ROOT = path.join(__dirname, '..');

/**
 * Where the two files of each platform's package are. Each is written out, as bundlers and tracers
 * find what they have to take along by reading, not by running.
 */
const PACKAGES = {
  'darwin-arm64': {
    addon: () => require.resolve('@navlock/darwin-arm64/navlock.node'),
    program: () => require.resolve('@navlock/darwin-arm64/bin/navlock'),
  },
  'darwin-x64': {
    addon: () => require.resolve('@navlock/darwin-x64/navlock.node'),
    program: () => require.resolve('@navlock/darwin-x64/bin/navlock'),
  },
  'linux-arm64-gnu': {
    addon: () => require.resolve('@navlock/linux-arm64-gnu/navlock.node'),
    program: () => require.resolve('@navlock/linux-arm64-gnu/bin/navlock'),
  },
  'linux-arm64-musl': {
    addon: () => require.resolve('@navlock/linux-arm64-musl/navlock.node'),
    program: () => require.resolve('@navlock/linux-arm64-musl/bin/navlock'),
  },
  'linux-x64-gnu': {
    addon: () => require.resolve('@navlock/linux-x64-gnu/navlock.node'),
    program: () => require.resolve('@navlock/linux-x64-gnu/bin/navlock'),
  },
  'linux-x64-musl': {
    addon: () => require.resolve('@navlock/linux-x64-musl/navlock.node'),
    program: () => require.resolve('@navlock/linux-x64-musl/bin/navlock'),
  },
};

/** What a local build makes. */
const LOCAL = { addon: path.join(ROOT, 'navlock.node'), program: path.join(ROOT, 'bin', 'navlock') };

/** Whether this system's C library is musl, as far as can be told without loading anything. */
function isMusl() {
  try {
    return readFileSync('/usr/bin/ldd', 'latin1').includes('musl');
  } catch {
    return false;
  }
}

/** The platforms of packages that fit, most likely first: none if there is none for this machine. */
function fittingPlatforms() {
  const base = `${process.platform}-${process.arch}`;
  const libcs = isMusl() ? ['-musl', '-gnu'] : ['-gnu', '-musl'];
  const names = process.platform === 'linux' ? libcs.map((libc) => base + libc) : [base];
  return names.filter((name) => Object.hasOwn(PACKAGES, name));
}

/**
 * All places where a file may be, most likely first, each with its path if it is there.
 *
 * @param {'addon' | 'program'} what
 * @returns {{ place: string, file: string | null }[]}
 */
function candidates(what) {
  const local = { place: 'a local build', file: existsSync(LOCAL[what]) ? LOCAL[what] : null };
  return [local, ...fittingPlatforms().map((name) => ({ place: `@navlock/${name}`, file: resolved(PACKAGES[name][what]) }))];
}

/** @returns {string | null} */
function resolved(resolve) {
  try {
    const file = resolve();
    // A bundler may have put a number there.
    return typeof file === 'string' ? file : null;
  } catch {
    return null;
  }
}

module.exports = { candidates, fittingPlatforms, isMusl };
