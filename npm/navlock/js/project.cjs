'use strict';
// Projects: which folder is the project that a file belongs to.

const { readFileSync, statSync } = require('node:fs');
const path = require('node:path');

/**
 * @typedef {object} Project
 * @property {string} folder
 * @property {string} because  what makes it one, in words
 */

/**
 * The project that a folder is in: the nearest workspace, or else the nearest package.
 *
 * A workspace is one project, as its packages are developed, installed and started together, and
 * guard the same things. Everything below its root belongs to it, listed as a member or not: the
 * tools differ in what they take for a member, and who shares a bucket needlessly waits at worst,
 * while two who do not share one both hold.
 *
 * @param {string} folder  a real path
 * @returns {Project | null}
 */
function findProject(folder) {
  let named = null;
  let unnamed = null;
  for (let at = folder; at !== null; at = path.dirname(at) === at ? null : path.dirname(at)) {
    const found = look(at);
    if (found.workspace !== null) return { folder: at, because: `a workspace (${found.workspace})` };
    if (found.project !== null) named ??= { folder: at, because: `a project (${found.project})` };
    if (found.hasDependencies) unnamed ??= { folder: at, because: 'a project (package.json, without a name)' };
  }
  return named ?? unnamed;
}

/**
 * Whether a folder with a `node_modules` is a project, and not the place of global packages or of
 * those of npx, whose package.json is written by a tool and has no name.
 */
function isInstaller(folder) {
  const { hasDependencies, project, workspace } = look(folder);
  return workspace !== null || (project !== null && !hasDependencies);
}

/** What the manifests of one folder say, as the names of the files that say it. */
function look(folder) {
  const found = { workspace: null, project: null, hasDependencies: false };
  if (isFile(path.join(folder, 'pnpm-workspace.yaml'))) found.workspace = 'pnpm-workspace.yaml';
  const manifest = read(path.join(folder, 'package.json'));
  if (manifest !== null) {
    const { dependencies, name, workspaces } = manifest;
    if (isList(workspaces) || isList(workspaces?.packages)) found.workspace ??= 'workspaces in package.json';
    // Without a name it may be a mark that says how the files beside it are to be read, as
    // dist/cjs/package.json. `npm install` in an empty folder does not write one either, though.
    if (typeof name === 'string' && name !== '') found.project = `package.json: ${name}`;
    else found.hasDependencies = typeof dependencies === 'object' && dependencies !== null;
  }
  for (const file of ['deno.json', 'deno.jsonc']) {
    if (!isFile(path.join(folder, file))) continue;
    const workspace = read(path.join(folder, file))?.workspace;
    if (isList(workspace) || isList(workspace?.members)) found.workspace ??= `workspace in ${file}`;
    // Only packages that are published have a name there.
    found.project ??= file;
  }
  return found;
}

function isList(value) {
  return Array.isArray(value) && value.length > 0;
}

/** What may not be read is not there. */
function isFile(file) {
  try {
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

const STRING = String.raw`"(?:\\.|[^"\\])*"`;
const COMMENT = new RegExp(String.raw`(${STRING})|//[^\n]*|/\*[^]*?\*/`, 'g');
const LAST_COMMA = new RegExp(String.raw`(${STRING})|,(?=\s*[}\]])`, 'g');

/** @returns {object | null} a manifest, with comments or not; `null` if it is none */
function read(file) {
  let text;
  try {
    text = readFileSync(file, 'utf8');
    const value = JSON.parse(text.replace(/^\ufeff/, '').replace(COMMENT, '$1').replace(LAST_COMMA, '$1'));
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

module.exports = { findProject, isFile, isInstaller };
