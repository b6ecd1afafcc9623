'use strict';
// The module `navlock`. Both entries share what is loaded here, so that they have the same locks.

const { OF_TEST_FILE } = require('./copies.cjs');
const { hold } = require('./hold.cjs');
const { inspect } = require('./inspect.cjs');
const { Lock } = require('./lock.cjs');
const { LockManager } = require('./lock-manager.cjs');
const { look } = require('./look.cjs');
const { report } = require('./reports.cjs');
const { requestAny, requestMultiple } = require('./request-multiple.cjs');
const { createUserAgent, locks } = require('./user-agent.cjs');

module.exports = globalThis[OF_TEST_FILE] ?? { Lock, LockManager, createUserAgent, hold, inspect, locks, look, report, requestAny, requestMultiple };
