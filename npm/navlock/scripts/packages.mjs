// What the packages are made of.

/** What cargo builds, as words for it: the addon, and the program with all that a broker can serve. */
export const packages = ['--package', 'navlock-node', '--package', 'navlock-cli', '--features', 'navlock-cli/etcd-tls'];

/** What cargo calls these two, by what Node calls the system. */
export const fileNames = {
  darwin: { library: 'libnavlock_node.dylib', program: 'navlock' },
  linux: { library: 'libnavlock_node.so', program: 'navlock' },
  win32: { library: 'navlock_node.dll', program: 'navlock.exe' },
};

/** Files of the repository. */
export const licences = ['LICENSE-APACHE', 'LICENSE-MIT'];
