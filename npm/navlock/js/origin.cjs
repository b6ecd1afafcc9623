'use strict';
// The default bucket. A project is here what an origin is in a browser: all processes and threads of one project share
// the locks of its bucket, and two projects never share a bucket.

const fs = require('node:fs');
const path = require('node:path');
const process = require('node:process');
const { fileURLToPath } = require('node:url');
const { getEnvironmentData, isMainThread, setEnvironmentData } = require('node:worker_threads');

const { findProject, isFile, isInstaller } = require('./project.cjs');

/** The longest name of a bucket, in bytes: the broker's limit. */
const MAX_BUCKET = 65_536;

/** Worker threads inherit this variable. They cannot find out otherwise with which script their process was started. */
const ENTRY = 'navlock: entry script';

/** On Windows a folder can be spelled in upper and lower case. The system knows the folder's own spelling. */
const realpathSync = process.platform === 'win32' ? fs.realpathSync.native : fs.realpathSync;

const entry = getEnvironmentData(ENTRY) ?? ownEntry();
if (isMainThread && entry !== null) setEnvironmentData(ENTRY, entry);

/**
 * The script that this thread was started with, as far as it is a file.
 *
 * @returns {string | null}
 */
function ownEntry() {
  // On Deno, a web worker says that it is a main thread, and the script of the main thread is not known there.
  const { location } = globalThis;
  if (typeof WorkerGlobalScope === 'function' && location?.protocol === 'file:') return fileURLToPath(location.href);
  // If the code is on the command line, there is no script: the first argument of the code stands in its place.
  if (process.execArgv.some((word) => /^(-e|--eval|-p|-pe|--print)(=|$)/.test(word))) return null;
  const script = process.argv[1];
  return script !== undefined && path.isAbsolute(script) ? script : null;
}

/**
 * The bucket of this program, unless the environment names another one: that of the project in which its script is. Three
 * kinds of programs use the bucket of their working folder instead: a tool that is installed globally or for one use,
 * code without a script, and a script that is in no project.
 *
 * @returns {string} the path of the project
 */
function defaultBucket() {
  const folder = entry === null ? null : folderOf(entry);
  const project = folder === null ? null : projectOfScript(folder);
  return project ?? bucketOfFolder();
}

/** This is called only where the working folder decides, because the folder may have been removed. */
function bucketOfFolder() {
  const folder = workingFolder();
  return findProject(folder) ?? folder;
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
 * The project of a script in a `node_modules` folder, which is a tool: the project that has installed it. Global
 * packages, and packages that npx and its like have installed for one use, belong to no project, even if there is a
 * project in a folder above them.
 */
function projectOfScript(folder) {
  if (isInCacheOfDeno(folder)) return null;
  const parts = folder.split(path.sep);
  const outermost = parts.indexOf('node_modules');
  if (outermost === -1) return findProject(folder);
  const installer = parts.slice(0, outermost).join(path.sep) || path.parse(folder).root;
  return isInstaller(installer) ? findProject(installer) : null;
}

/** For `deno run npm:tool`: Deno has a package in …/npm/REGISTRY/NAME/VERSION, beside a file about its versions. */
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

module.exports = { MAX_BUCKET, defaultBucket };
