'use strict';
// The setup module `navlock/test`, as jest loads it: once for each test file.

require('./test-file.cjs').beginTestFile(globalThis.afterAll);
