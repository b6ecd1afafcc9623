'use strict';
// Why there is nothing built for this platform to be used, and what to do about it.

const process = require('node:process');

const { fittingPlatforms, isMusl } = require('./platform.cjs');

/**
 * @param {'addon' | 'program'} what
 * @param {{ place: string, file: string | null, error?: Error }[]} tried
 * @returns {Error}
 */
function missing(what, tried) {
  const looked = tried.map(({ place, file, error }) => `  ${file ?? place}: ${file === null ? 'not there' : (error?.message ?? 'there')}`);
  return new Error([`navlock: there is no ${what} for ${machine()} that can be used: ${cause(tried)}`, 'Looked at:', ...looked].join('\n'));
}

/** The cause and the remedy, in one sentence. */
function cause(tried) {
  const errors = tried.flatMap(({ error }) => (error === undefined ? [] : [error]));
  const denied = errors.find(({ code }) => code === 'ERR_DLOPEN_DISABLED');
  if (denied) return 'this Node may not load addons; start it without --no-addons, or if with --permission, with --allow-addons too';
  if (fittingPlatforms().length === 0) return 'it runs on Linux and macOS, on x64 and arm64';
  if (errors.length > 0) return 'it is there, but cannot be loaded; see below';
  return 'its package is not installed; install navlock again without leaving out optional dependencies (npm: without --omit=optional), or build it from its repository with: npm run build';
}

function machine() {
  return `${process.platform} on ${process.arch}${process.platform === 'linux' && isMusl() ? ' with musl' : ''}`;
}

module.exports = { missing };
