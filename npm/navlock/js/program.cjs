'use strict';
// Finding the `navlock` program, which is the broker that the reach "machine" starts on demand.

const { environment } = require('./environment.cjs');
const { candidates } = require('./platform.cjs');

/** @returns {string | null} the path of the program that came with this package */
function ownProgram() {
  return candidates('program').find(({ file }) => file !== null)?.file ?? null;
}

/** @returns {string | null} the path of the broker; `null`: whatever is called `navlock` in the PATH */
function findProgram() {
  return environment('NAVLOCK_BIN') ?? ownProgram();
}

module.exports = { findProgram, ownProgram };
