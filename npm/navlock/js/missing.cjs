'use strict';
// Explains why no addon or program for this platform was found, and what to do.

const process = require('node:process');

const { fittingPlatforms, foreignPlatforms, isBundled, isMusl } = require('./platform.cjs');

/**
 * @param {'addon' | 'program'} what
 * @param {{ place: string, file: string | null, error?: Error }[]} tried  all candidates
 * @returns {Error}
 */
function missing(what, tried) {
  const looked = tried.map(({ place, file, error }) => `  ${file ?? place}: ${error?.message ?? 'not there'}`);
  return new Error([`navlock: the ${what} cannot be used: ${cause(tried)}`, 'Looked at:', ...looked].join('\n'));
}

/** The cause and the remedy, as far as they can be told. */
function cause(tried) {
  const failed = tried.filter(({ error }) => error !== undefined);
  if (failed.some(({ error }) => error.code === 'ERR_DLOPEN_DISABLED')) {
    return process.permission === undefined
      ? 'this process may load no addons; start it without --no-addons'
      : 'this process may load no addons; start it with --allow-addons beside --permission';
  }
  if (failed.some(({ error }) => error.name === 'NotCapable')) {
    return 'this process may load no addons; start it with --allow-ffi --allow-read --allow-env';
  }
  const fitting = fittingPlatforms();
  if (fitting.length === 0 && failed.length === 0) {
    return `it is built for Linux and macOS on x64 and arm64 and for Windows on x64, and this is ${process.platform} on ${process.arch}`;
  }
  const here = fitting[0];
  const foreign = failed.find(({ place }) => place.startsWith('@navlock/') && place !== `@navlock/${here}`)?.place ?? foreignPlatforms().map((platform) => `@navlock/${platform}`)[0];
  if (foreign !== undefined) {
    return `${foreign} is installed, and this machine, ${system()}, needs @navlock/${here}; do not copy node_modules from one to another, but install here`;
  }
  if (failed.length > 0) return `it is there, but cannot be loaded on ${system()}; install navlock again`;
  if (isBundled()) {
    return `this is a bundle, which has navlock's JavaScript alone; have node_modules/@navlock/${here} beside it, or leave navlock out of it (external)`;
  }
  return `@navlock/${here} is not installed; install navlock again without leaving out optional dependencies `
    + '(npm: --omit=optional, pnpm: --no-optional, yarn and pnpm: supportedArchitectures), or build it from its repository with: npm run build';
}

function system() {
  const libc = process.platform === 'linux' ? ` with ${isMusl() ? 'musl' : 'glibc'}` : '';
  return `${process.platform} on ${process.arch}${libc}`;
}

module.exports = { missing };
