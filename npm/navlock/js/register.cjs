'use strict';
// Makes `navigator.locks`, `LockManager` and `Lock` ours.

const { locks } = require('./index.cjs');
const { installAttribute, installInterfaces, installNavigator } = require('./install.cjs');
const { TypeError } = require('./primordials.cjs');

installInterfaces(globalThis);
if (!globalThis.navigator) installNavigator();
const { navigator } = globalThis;
installAttribute(navigator, (of) => {
  if (of !== navigator) throw new TypeError('Illegal invocation: this is not the navigator');
  return locks;
});
