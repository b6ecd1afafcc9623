'use strict';
// A test file may load several copies of this package, as by `jest.resetModules()`. By this symbol, later
// copies find the first one, which has the locks of the file.

module.exports = { OF_TEST_FILE: Symbol.for('navlock of this test file') };
