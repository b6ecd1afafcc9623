// The contents of the packages.

/** The words by which cargo builds the addon, and the program with every reach that a broker can serve. */
export const packages = ['--package', 'navlock-node', '--package', 'navlock-cli', '--features', 'navlock-cli/etcd,navlock-cli/postgres,navlock-cli/tls'];

/** The names that cargo gives to the files of these two, by Node's name of the system. */
export const fileNames = {
  darwin: { library: 'libnavlock_node.dylib', program: 'navlock' },
  linux: { library: 'libnavlock_node.so', program: 'navlock' },
  win32: { library: 'navlock_node.dll', program: 'navlock.exe' },
};

/** The licences, which are files of the repository. */
export const licences = ['LICENSE-APACHE', 'LICENSE-MIT'];
