'use strict';
// The bucket that is meant when none is named: what an origin is to a browser, a package is here.
// All processes and threads of one package meet, and two packages never collide.

const { createHash } = require('node:crypto');
const { existsSync, realpathSync, statSync } = require('node:fs');
const path = require('node:path');
const { fileURLToPath } = require('node:url');
const { getEnvironmentData, isMainThread, setEnvironmentData } = require('node:worker_threads');

const MANIFESTS = ['package.json', 'deno.json', 'deno.jsonc'];

/** The longest name of a bucket, in bytes: the broker's limit. */
const MAX_BUCKET = 65_536;

/** Worker threads inherit this, and cannot find out otherwise what their process was started with. */
const ENTRY = 'navlock: entry script';

const entry = getEnvironmentData(ENTRY) ?? ownEntry();
if (isMainThread && entry !== null) setEnvironmentData(ENTRY, entry);

/**
 * The script that this thread was started with, as far as it is a file.
 *
 * @returns {string | null}
 */
function ownEntry() {
  // A worker of the web on Deno takes itself for a main thread, whose script nobody knows there.
  const { location } = globalThis;
  if (typeof WorkerGlobalScope === 'function' && location?.protocol === 'file:') return fileURLToPath(location.href);
  const script = process.argv[1];
  return script !== undefined && path.isAbsolute(script) ? script : null;
}

/**
 * The real path of the folder of the nearest manifest above the entry script. A script in a
 * `node_modules` folder belongs to the package that has installed it. Where there is no script, or
 * nothing above it, the working folder takes its place.
 *
 * @returns {string}
 */
function defaultBucket() {
  const folder = nearestPackage(entryFolder()) ?? workingPackage();
  if (Buffer.byteLength(folder) <= MAX_BUCKET) return folder;
  return `sha256:${createHash('sha256').update(folder).digest('hex')}`;
}

/** @returns {string | null} where to begin to look */
function entryFolder() {
  if (entry === null) return null;
  let folder;
  try {
    const script = realpathSync(entry);
    folder = statSync(script).isDirectory() ? script : path.dirname(script);
  } catch {
    // `node main` for main.js, or a name that a runtime made up for code without a file.
    try {
      folder = realpathSync(path.dirname(entry));
    } catch {
      return null;
    }
  }
  const parts = folder.split(path.sep);
  const outermost = parts.indexOf('node_modules');
  return outermost === -1 ? folder : parts.slice(0, outermost).join(path.sep) || path.parse(folder).root;
}

/** Asked for only if it counts: the working folder of a process may have been removed. */
function workingPackage() {
  const cwd = realpathSync(process.cwd());
  return nearestPackage(cwd) ?? cwd;
}

/** @returns {string | null} the first folder with a manifest, from `folder` upwards */
function nearestPackage(folder) {
  for (let at = folder; at !== null; at = path.dirname(at) === at ? null : path.dirname(at)) {
    if (MANIFESTS.some((manifest) => existsSync(path.join(at, manifest)))) return at;
  }
  return null;
}

module.exports = { MAX_BUCKET, defaultBucket };
