'use strict';
// Where copies of this package that a test file loads later, as after `jest.resetModules()`, find the one
// that has the file's locks.

module.exports = { OF_TEST_FILE: Symbol.for('navlock of this test file') };
