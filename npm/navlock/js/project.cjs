'use strict';
// Projects: finds the folder that is the project of a file. The command has the same rules (`Project` in Rust), and both
// pass the cases in test/projects.json.

const { readFileSync, statSync } = require('node:fs');
const path = require('node:path');

/**
 * The project that a folder is in: the nearest workspace, or else the nearest package.
 *
 * A workspace is one project: its packages are developed, installed and started together, and protect the same things.
 * Everything below its root belongs to it, listed as a member or not, because tools differ in what they take for a
 * member. A bucket that is shared needlessly makes a program wait at worst. A bucket that is not shared lets two
 * programs hold one lock.
 *
 * @param {string} folder  a real path
 * @returns {string | null}  the folder
 */
function findProject(folder) {
  let named = null;
  let unnamed = null;
  for (let at = folder; at !== null; at = path.dirname(at) === at ? null : path.dirname(at)) {
    const { hasDependencies, isProject, isWorkspace } = readManifests(at);
    if (isWorkspace) return at;
    if (isProject) named ??= at;
    if (hasDependencies) unnamed ??= at;
  }
  return named ?? unnamed;
}

/**
 * Whether a folder with a `node_modules` is a project. The folder of global packages, or of npx, is none: a tool has
 * written its package.json, which has no name.
 */
function isInstaller(folder) {
  const { hasDependencies, isProject, isWorkspace } = readManifests(folder);
  return isWorkspace || (isProject && !hasDependencies);
}

/** What the manifests of one folder say. */
function readManifests(folder) {
  const found = { isWorkspace: isFile(path.join(folder, 'pnpm-workspace.yaml')), isProject: false, hasDependencies: false };
  const manifest = read(path.join(folder, 'package.json'));
  if (manifest !== null) {
    const { dependencies, name, workspaces } = manifest;
    found.isWorkspace ||= isList(workspaces) || isList(workspaces?.packages);
    // A package.json without a name may only say of which kind the files beside it are, as dist/cjs/package.json does.
    // But `npm install` in an empty folder writes no name either.
    if (typeof name === 'string' && name !== '') found.isProject = true;
    else found.hasDependencies = typeof dependencies === 'object' && dependencies !== null;
  }
  for (const file of ['deno.json', 'deno.jsonc'].map((file) => path.join(folder, file)).filter(isFile)) {
    const workspace = read(file)?.workspace;
    found.isWorkspace ||= isList(workspace) || isList(workspace?.members);
    // In this file, only published packages have a name.
    found.isProject = true;
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
  // A pipe of this name would be waited for.
  if (!isFile(file)) return null;
  try {
    const text = readFileSync(file, 'utf8');
    const value = JSON.parse(text.replace(/^\ufeff/, '').replace(COMMENT, '$1').replace(LAST_COMMA, '$1'));
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

module.exports = { findProject, isFile, isInstaller };
