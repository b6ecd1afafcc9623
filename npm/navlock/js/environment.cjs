'use strict';
// Reads environment variables, which give the settings that a program does not give.

const { getEnvironmentData, isMainThread, setEnvironmentData } = require('node:worker_threads');

/**
 * The variables that say who shares locks. Worker threads inherit them: a worker that is given another environment
 * shares locks with its process all the same, unless that environment names another place.
 */
const PLACE = ['NAVLOCK_REACH', 'NAVLOCK_BUCKET', 'NAVLOCK_SOCKET', 'NAVLOCK_STORE', 'NAVLOCK_BIN'];

if (isMainThread) {
  try {
    for (const name of PLACE) setEnvironmentData(inherited(name), own(name) ?? undefined);
  } catch {
    // Deno has not permitted it. A request that needs the variable says so.
  }
}

function inherited(name) {
  return `navlock: ${name}`;
}

function own(name) {
  return process.env[name] || null;
}

/** @returns {string | null} `null` if the variable is not set or is empty; the command line does the same */
function environment(name) {
  return own(name) ?? (isMainThread ? null : getEnvironmentData(inherited(name)) ?? null);
}

module.exports = { environment };
