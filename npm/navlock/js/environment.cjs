'use strict';
// The variables that say what is meant where a program does not say it.

/** @returns {string | null} an empty variable is none, as for the command line */
function environment(name) {
  return process.env[name] || null;
}

module.exports = { environment };
