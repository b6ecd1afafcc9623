'use strict';
// The bucket that is meant when none is named: what an origin is to a browser, a project is here.
// All processes and threads of one project meet, and two projects never collide.

const { createHash } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const process = require('node:process');
const { fileURLToPath } = require('node:url');
const { getEnvironmentData, isMainThread, setEnvironmentData } = require('node:worker_threads');

const { environment } = require('./environment.cjs');
const { findProject, isFile, isInstaller } = require('./project.cjs');

/** The longest name of a bucket, in bytes: the broker's limit. */
const MAX_BUCKET = 65_536;

/** Worker threads inherit this, and cannot find out otherwise what their process was started with. */
const ENTRY = 'navlock: entry script';

/** On Windows a folder has as many spellings as its letters have cases, and the system knows which one is its own. */
const realpathSync = process.platform === 'win32' ? fs.realpathSync.native : fs.realpathSync;

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
  // Code that the command line gives is no file: what stands where the script would is its first argument.
  if (process.execArgv.some((word) => /^(-e|--eval|-p|-pe|--print)(=|$)/.test(word))) return null;
  const script = process.argv[1];
  return script !== undefined && path.isAbsolute(script) ? script : null;
}

/**
 * @typedef {object} Origin
 * @property {string} bucket
 * @property {string} because  why it is this one, to be put behind it
 */

/**
 * The bucket of this program: that of the project of its script. A tool that is installed for all
 * projects, or for one use of it, belongs to the folder that it is used in, as does code without a
 * script, and a script that is in no project.
 *
 * @returns {Origin}
 */
function programOrigin() {
  const folder = entry === null ? null : folderOf(entry);
  const project = folder === null ? null : projectOfScript(folder);
  if (project === null) return folderOrigin();
  return { bucket: named(project.folder), because: `of the script ${entry}: ${project.because}` };
}

/**
 * The bucket of what is used in the working folder. That is asked for only if it counts: the working
 * folder of a process may have been removed.
 *
 * @returns {Origin}
 */
function folderOrigin() {
  const folder = workingFolder();
  const project = findProject(folder);
  if (project === null) return { bucket: named(folder), because: 'the working folder, which is in no project' };
  return { bucket: named(project.folder), because: `of the working folder: ${project.because}` };
}

/** What the environment says goes before it. */
function given() {
  const bucket = environment('NAVLOCK_BUCKET');
  return bucket === null ? null : { bucket, because: 'as NAVLOCK_BUCKET says' };
}

/** The real path of the folder of a script, as far as there is one. */
function folderOf(script) {
  try {
    const real = realpathSync(script);
    return fs.statSync(real).isDirectory() ? real : path.dirname(real);
  } catch {
    // `node main` for main.js, or a name that a runtime made up for code without a file.
    try {
      return realpathSync(path.dirname(script));
    } catch {
      return null;
    }
  }
}

/**
 * A script in a `node_modules` folder is a tool. It belongs to the project that has installed it, if
 * a project has: where npx and its like put what they run, and where global packages are, there is
 * none, whatever is found further up.
 */
function projectOfScript(folder) {
  if (isInCacheOfDeno(folder)) return null;
  const parts = folder.split(path.sep);
  const outermost = parts.indexOf('node_modules');
  if (outermost === -1) return findProject(folder);
  const installer = parts.slice(0, outermost).join(path.sep) || path.parse(folder).root;
  return isInstaller(installer) ? findProject(installer) : null;
}

/** `deno run npm:tool`: a package is in …/npm/REGISTRY/NAME/VERSION there, beside what is known of its versions. */
function isInCacheOfDeno(folder) {
  if (globalThis.Deno === undefined) return false;
  for (let at = folder; at !== path.dirname(at); at = path.dirname(at)) {
    if (isFile(path.join(at, 'package.json'))) return isFile(path.join(path.dirname(at), 'registry.json'));
  }
  return false;
}

function workingFolder() {
  try {
    return realpathSync(process.cwd());
  } catch (error) {
    throw new Error(`navlock: there is no bucket by default: the working folder cannot be used (${error.message}); change to another one, or set NAVLOCK_BUCKET`);
  }
}

/** A folder as the name of a bucket. */
function named(folder) {
  if (Buffer.byteLength(folder) <= MAX_BUCKET) return folder;
  return `sha256:${createHash('sha256').update(folder).digest('hex')}`;
}

module.exports = {
  MAX_BUCKET,
  /** @returns {string} the bucket of this program, unless the environment names another one */
  defaultBucket: () => programOrigin().bucket,
  /** @returns {Origin} the bucket of programs that are in the working folder, or used in it */
  originHere: () => given() ?? folderOrigin(),
};
