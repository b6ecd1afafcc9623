'use strict';
// The optional packages with the files for one platform: the addon and the program `navlock`. npm installs the packages
// that fit the machine.

const { existsSync, readFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');
const process = require('node:process');

/** The file name of the program on this platform. */
const PROGRAM = process.platform === 'win32' ? 'navlock.exe' : 'navlock';

const PLATFORMS = ['darwin-arm64', 'darwin-x64', 'linux-arm64-gnu', 'linux-arm64-musl', 'linux-x64-gnu', 'linux-x64-musl', 'win32-x64'];

/*
 * The path of a file in the package of a platform, if that package stands beside this one, where package managers put
 * it. Without a platform: the path of the file that a local build makes in this package. Every path is written out,
 * because tracers find the files that a program needs by reading its code. No path is that of an import, because
 * bundlers could not read these files as modules.
 */

function addonBeside(platform) {
  switch (platform) {
    case 'darwin-arm64': return path.join(__dirname, '..', '..', '@navlock', 'darwin-arm64', 'navlock.node');
    case 'darwin-x64': return path.join(__dirname, '..', '..', '@navlock', 'darwin-x64', 'navlock.node');
    case 'linux-arm64-gnu': return path.join(__dirname, '..', '..', '@navlock', 'linux-arm64-gnu', 'navlock.node');
    case 'linux-arm64-musl': return path.join(__dirname, '..', '..', '@navlock', 'linux-arm64-musl', 'navlock.node');
    case 'linux-x64-gnu': return path.join(__dirname, '..', '..', '@navlock', 'linux-x64-gnu', 'navlock.node');
    case 'linux-x64-musl': return path.join(__dirname, '..', '..', '@navlock', 'linux-x64-musl', 'navlock.node');
    case 'win32-x64': return path.join(__dirname, '..', '..', '@navlock', 'win32-x64', 'navlock.node');
    default: return path.join(__dirname, '..', 'navlock.node');
  }
}

function programBeside(platform) {
  switch (platform) {
    case 'darwin-arm64': return path.join(__dirname, '..', '..', '@navlock', 'darwin-arm64', 'bin', 'navlock');
    case 'darwin-x64': return path.join(__dirname, '..', '..', '@navlock', 'darwin-x64', 'bin', 'navlock');
    case 'linux-arm64-gnu': return path.join(__dirname, '..', '..', '@navlock', 'linux-arm64-gnu', 'bin', 'navlock');
    case 'linux-arm64-musl': return path.join(__dirname, '..', '..', '@navlock', 'linux-arm64-musl', 'bin', 'navlock');
    case 'linux-x64-gnu': return path.join(__dirname, '..', '..', '@navlock', 'linux-x64-gnu', 'bin', 'navlock');
    case 'linux-x64-musl': return path.join(__dirname, '..', '..', '@navlock', 'linux-x64-musl', 'bin', 'navlock');
    case 'win32-x64': return path.join(__dirname, '..', '..', '@navlock', 'win32-x64', 'bin', 'navlock.exe');
    default: return path.join(__dirname, '..', 'bin', PROGRAM);
  }
}

/** Whether this system's C library is musl, as far as that can be told without loading anything. */
function isMusl() {
  try {
    return readFileSync('/usr/bin/ldd', 'latin1').includes('musl');
  } catch {
    return false;
  }
}

/** The platforms whose packages fit this machine, the most likely first. Empty if there is none. */
function fittingPlatforms() {
  const base = `${process.platform}-${process.arch}`;
  const libcs = isMusl() ? ['-musl', '-gnu'] : ['-gnu', '-musl'];
  const names = process.platform === 'linux' ? libcs.map((libc) => base + libc) : [base];
  return names.filter((name) => PLATFORMS.includes(name));
}

/**
 * All places where a file may be, most likely first, each with its path if it is there.
 *
 * @param {'addon' | 'program'} what
 * @returns {{ place: string, file: string | null }[]}
 */
function candidates(what) {
  const beside = what === 'addon' ? addonBeside : programBeside;
  const name = what === 'addon' ? 'navlock.node' : `bin/${PROGRAM}`;
  const packages = fittingPlatforms().map((platform) => {
    const place = `@navlock/${platform}`;
    return { place, file: existing(() => beside(platform)) ?? installed(`${place}/${name}`) };
  });
  return [{ place: 'a local build', file: existing(() => beside(null)) }, ...packages];
}

/** @returns {string | null} a path, if it leads to something */
function existing(find) {
  try {
    const file = find();
    return existsSync(file) ? file : null;
  } catch {
    // In a bundle of ECMAScript modules there is no __dirname.
    return null;
  }
}

/**
 * The path of a file in a package that stands elsewhere, or for code that is in a bundle. The package is looked for
 * as this file, the script or the executable would find it. `null` if none of them does.
 */
function installed(specifier) {
  // Nothing is looked for in the working folder: it may be anybody's, and this is native code.
  const places = [() => __filename, () => process.argv[1], () => process.execPath];
  for (const from of places) {
    try {
      return createRequire(from()).resolve(specifier);
    } catch {
      // It cannot be found from there.
    }
  }
  return null;
}

/** The platforms whose packages are installed but do not fit this machine. */
function foreignPlatforms() {
  const fitting = fittingPlatforms();
  return PLATFORMS.filter((platform) => !fitting.includes(platform) && installed(`@navlock/${platform}/navlock.node`) !== null);
}

/** Whether a bundler has put this file into another one. */
function isBundled() {
  return typeof __filename !== 'string' || path.basename(__filename) !== 'platform.cjs' || !existsSync(__filename);
}

module.exports = { candidates, fittingPlatforms, foreignPlatforms, isBundled, isMusl };
