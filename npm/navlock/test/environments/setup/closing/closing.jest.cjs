const { check } = require('./check.cjs');

test('a window that is closed has no locks any more', check);
