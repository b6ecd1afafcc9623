'use strict';
// Projects: finds the folder that is the project of a file.

const { readFileSync, statSync } = require('node:fs');
const path = require('node:path');

/**
 * @typedef {object} Project
 * @property {string} folder
 * @property {string} because  what makes the folder a project, in words
 */

/**
 * The project that a folder is in: the nearest workspace, or else the nearest package.
 *
 * A workspace is one project: its packages are developed, installed and started together, and protect the same things.
 * Everything below its root belongs to it, listed as a member or not, because tools differ in what they take for a
 * member. A bucket that is shared needlessly makes a program wait at worst. A bucket that is not shared lets two
 * programs hold one lock.
 *
 * @param {string} folder  a real path
 * @returns {Project | null}
 */
function findProject(folder) {
  let named = null;
  let unnamed = null;
  for (let at = folder; at !== null; at = path.dirname(at) === at ? null : path.dirname(at)) {
    const found = readManifests(at);
    if (found.workspace !== null) return { folder: at, because: `a workspace (${found.workspace})` };
    if (found.project !== null) named ??= { folder: at, because: `a project (${found.project})` };
    if (found.hasDependencies) unnamed ??= { folder: at, because: 'a project (package.json, without a name)' };
  }
  return named ?? unnamed;
}

/**
 * Whether a folder with a `node_modules` is a project. The folder of global packages, or of npx, is none: a tool has
 * written its package.json, which has no name.
 */
function isInstaller(folder) {
  const { hasDependencies, project, workspace } = readManifests(folder);
  return workspace !== null || (project !== null && !hasDependencies);
}

/** What the manifests of one folder say. `workspace` and `project` name the file that makes the folder one. */
function readManifests(folder) {
  const found = { workspace: null, project: null, hasDependencies: false };
  if (isFile(path.join(folder, 'pnpm-workspace.yaml'))) found.workspace = 'pnpm-workspace.yaml';
  const manifest = read(path.join(folder, 'package.json'));
  if (manifest !== null) {
    const { dependencies, name, workspaces } = manifest;
    if (isList(workspaces) || isList(workspaces?.packages)) found.workspace ??= 'workspaces in package.json';
    // A package.json without a name may only say of which kind the files beside it are, as dist/cjs/package.json does.
    // But `npm install` in an empty folder writes no name either.
    if (typeof name === 'string' && name !== '') found.project = `package.json: ${name}`;
    else found.hasDependencies = typeof dependencies === 'object' && dependencies !== null;
  }
  for (const file of ['deno.json', 'deno.jsonc']) {
    if (!isFile(path.join(folder, file))) continue;
    const workspace = read(path.join(folder, file))?.workspace;
    if (isList(workspace) || isList(workspace?.members)) found.workspace ??= `workspace in ${file}`;
    // In this file, only published packages have a name.
    found.project ??= file;
  }
  return found;
}

function isList(value) {
  return Array.isArray(value) && value.length > 0;
}

/** A file that may not be read counts as missing. */
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
