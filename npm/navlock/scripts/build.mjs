// Builds the addon and the `navlock` program from the sources of the repository, and puts them into this package,
// with the licences of the repository.
//
//     npm run build            optimised
//     npm run build -- --debug

import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { fileNames, licences, packages } from './packages.mjs';

const folder = dirname(dirname(fileURLToPath(import.meta.url)));
const repository = dirname(dirname(folder));
const isDebug = process.argv.includes('--debug');

const names = fileNames[process.platform];
if (names === undefined || !existsSync(join(folder, 'Cargo.toml'))) {
  console.error(
    names === undefined
      ? `navlock: cannot be built on ${process.platform} yet; it runs on Linux, macOS and Windows`
      : `navlock: ${folder} has no sources; build in a checkout of the repository`,
  );
  process.exit(1);
}

const cargo = (...words) => execFileSync('cargo', words, { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['inherit', 'pipe', 'inherit'] });
cargo('build', ...(isDebug ? [] : ['--release']), ...packages);
const { target_directory: target } = JSON.parse(cargo('metadata', '--format-version', '1', '--no-deps'));
const built = join(target, isDebug ? 'debug' : 'release');

// Puts a file in its place by renaming it, so that programs that use the old file keep that file whole.
function put(from, ...to) {
  const path = join(folder, ...to);
  mkdirSync(dirname(path), { recursive: true });
  copyFileSync(join(built, from), `${path}.new`);
  renameSync(`${path}.new`, path);
}
put(names.library, 'navlock.node');
put(names.program, 'bin', names.program);
// Each package must have the licences, and npm packs only files of the package's folder.
for (const licence of licences) copyFileSync(join(repository, licence), join(folder, licence));
