'use strict';
// Finding the addon: the Rust half of this package, built for one platform.

const { existsSync } = require('node:fs');
const path = require('node:path');

const { ROOT, inPackage, platformPackages } = require('./platform.cjs');

const FILE = 'navlock.node';

/** @throws {Error} with what was looked for, where, and what to do */
function loadAddon() {
  const tried = [];
  const local = path.join(ROOT, FILE);
  if (existsSync(local)) {
    const addon = load(local, tried);
    if (addon !== null) return addon;
  } else {
    tried.push(`${local} (a local build): not there`);
  }
  for (const name of platformPackages()) {
    const file = inPackage(name, FILE);
    const addon = file === null ? (tried.push(`${name}: not installed`), null) : load(file, tried);
    if (addon !== null) return addon;
  }
  throw new Error([
    `navlock: there is no addon for ${process.platform} on ${process.arch} that can be loaded. Looked at:`,
    ...tried.map((line) => `  ${line}`),
    'Install navlock again without leaving out optional dependencies (npm: no --omit=optional), or build it from',
    'its repository with: npm run build',
  ].join('\n'));
}

/**
 * An instance of the addon that is ours alone. `require` would share one with whatever other copy
 * of this module is in the same thread, such as those that test runners load for each file.
 */
function load(file, tried) {
  const instance = { exports: {} };
  try {
    process.dlopen(instance, file);
    return instance.exports;
  } catch (error) {
    tried.push(`${file}: ${error.message}`);
    return null;
  }
}

module.exports = { loadAddon };
