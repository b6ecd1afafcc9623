'use strict';
// Reads environment variables, which give the settings that a program does not give.

/** @returns {string | null} `null` if the variable is not set or is empty; the command line does the same */
function environment(name) {
  return process.env[name] || null;
}

module.exports = { environment };
