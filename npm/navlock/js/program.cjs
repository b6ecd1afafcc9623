'use strict';
// Finding the `navlock` program, which is the broker that the reach "machine" starts on demand.

const { existsSync } = require('node:fs');
const path = require('node:path');

const { environment } = require('./environment.cjs');
const { ROOT, inPackage, platformPackages } = require('./platform.cjs');

const FILE = process.platform === 'win32' ? 'bin/navlock.exe' : 'bin/navlock';

/** @returns {string | null} its path; `null`: whatever is called `navlock` in the PATH */
function findProgram() {
  const given = environment('NAVLOCK_BIN');
  if (given !== null) return given;
  const local = path.join(ROOT, FILE);
  if (existsSync(local)) return local;
  for (const name of platformPackages()) {
    const file = inPackage(name, FILE);
    if (file !== null) return file;
  }
  return null;
}

module.exports = { findProgram };
