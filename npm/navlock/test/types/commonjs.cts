// From a CommonJS module.

import navlock = require('navlock');

export const locks: navlock.LockManager = navlock.locks;
