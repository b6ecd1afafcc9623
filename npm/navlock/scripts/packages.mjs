// What the packages are made of.

/** What cargo builds, as words for it: the addon, and the program with all that a broker can serve. */
export const packages = ['--package', 'navlock-node', '--package', 'navlock-cli', '--features', 'navlock-cli/etcd-tls'];

/** Files of the repository. */
export const licences = ['LICENSE-APACHE', 'LICENSE-MIT'];
