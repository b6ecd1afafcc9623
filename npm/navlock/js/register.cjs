'use strict';
// Makes `navigator.locks`, `LockManager` and `Lock` ours.

const { syncBuiltinESMExports } = require('node:module');
const threads = require('node:worker_threads');

const { locks } = require('./index.cjs');
const { installAttribute, installInterfaces, installNavigator, replace } = require('./install.cjs');
const { TypeError } = require('./primordials.cjs');

installInterfaces(globalThis);
if (!globalThis.navigator) installNavigator();
const { navigator } = globalThis;
installAttribute(navigator, (of) => {
  if (of !== navigator) throw new TypeError('Illegal invocation: this is not the navigator');
  return locks;
});
// Newer versions of Node have the same object there.
if ('locks' in threads) {
  replace(threads, 'locks', { get: () => locks, set: undefined, enumerable: true });
  syncBuiltinESMExports();
}
