'use strict';
// Reads environment variables, which set what a program does not.

/** @returns {string | null} an empty variable is none, as for the command line */
function environment(name) {
  return process.env[name] || null;
}

module.exports = { environment };
