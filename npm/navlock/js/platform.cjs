'use strict';
// The optional packages that carry what is built for a platform: the addon and the `navlock`
// program. npm installs those that fit the machine.

const path = require('node:path');

/** This package's own folder, where a local build puts both. */
const ROOT = path.join(__dirname, '..');

/** The names that fit, most likely first: which libc it is shows when an addon is loaded. */
function platformPackages() {
  const base = `@navlock/${process.platform}-${process.arch}`;
  return process.platform === 'linux' ? [`${base}-gnu`, `${base}-musl`] : [base];
}

/** @returns {string | null} the path of a file of a package, or `null` if it is not installed */
function inPackage(name, file) {
  try {
    return require.resolve(`${name}/${file}`);
  } catch {
    return null;
  }
}

module.exports = { ROOT, inPackage, platformPackages };
