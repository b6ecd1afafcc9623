'use strict';
// Finding the addon: the Rust half of this package, built for one platform.

const process = require('node:process');

const { candidates } = require('./platform.cjs');
const { missing } = require('./missing.cjs');

/**
 * @returns {{ addon: object, file: string }}
 * @throws {Error} that says the cause, as far as it is known, what was looked for, and what to do
 */
function findAddon() {
  const tried = candidates('addon');
  for (const candidate of tried) {
    const { file } = candidate;
    if (file === null) continue;
    // An instance of the addon for this copy of the module alone. `require` would share the instance with other copies in
    // the same thread, such as those that test runners load for each file.
    const instance = { exports: {} };
    try {
      process.dlopen(instance, file);
      return { addon: instance.exports, file };
    } catch (error) {
      candidate.error = error;
    }
  }
  throw missing('addon', tried);
}

module.exports = { findAddon };
