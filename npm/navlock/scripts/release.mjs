// Makes the packages that are published, in dist/ or in the folder of --out. The package `navlock` has the
// JavaScript. Besides, there is a package for each target with the files that are built for it. npm installs the one
// that fits.
//
//     npm run release                                   for this machine, with cargo
//     npm run release -- --target TARGET[,TARGET…]      with cargo-zigbuild, x86_64-pc-windows-msvc with cargo;
//                                                       `all` for all of them but x86_64-pc-windows-msvc
//
// RELEASE.md says what has to be there, and how to publish.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { fileNames, licences, packages } from './packages.mjs';

const folder = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const repository = path.resolve(folder, '..', '..');
/**
 * The targets, by Rust's names. The glibc is as old as that of Node's own builds, so that the files run where Node
 * runs.
 */
const targets = {
  'x86_64-unknown-linux-gnu': { os: 'linux', cpu: 'x64', libc: 'glibc', suffix: '-gnu', zig: '.2.28' },
  'aarch64-unknown-linux-gnu': { os: 'linux', cpu: 'arm64', libc: 'glibc', suffix: '-gnu', zig: '.2.28' },
  'x86_64-unknown-linux-musl': { os: 'linux', cpu: 'x64', libc: 'musl', suffix: '-musl', zig: '' },
  'aarch64-unknown-linux-musl': { os: 'linux', cpu: 'arm64', libc: 'musl', suffix: '-musl', zig: '' },
  'x86_64-apple-darwin': { os: 'darwin', cpu: 'x64', suffix: '', zig: '' },
  'aarch64-apple-darwin': { os: 'darwin', cpu: 'arm64', suffix: '', zig: '' },
  'x86_64-pc-windows-gnu': { os: 'win32', cpu: 'x64', suffix: '', zig: '' },
  // The package of the target above, if it is built on Windows itself.
  'x86_64-pc-windows-msvc': { os: 'win32', cpu: 'x64', suffix: '' },
};

const { values } = parseArgs({ options: { target: { type: 'string' }, out: { type: 'string' } } });
const dist = values.out ? path.resolve(values.out) : path.join(folder, 'dist');
const host = run('rustc', ['-vV']).match(/^host: (.*)$/m)[1];
const names = values.target === 'all' ? Object.keys(targets).filter((name) => targets[name].zig !== undefined) : (values.target ?? host).split(',');
for (const name of names) {
  if (!targets[name]) {
    console.error(`navlock: there is no target ${name}; there are ${Object.keys(targets).join(', ')}`);
    process.exit(2);
  }
  if (targets[name].zig === undefined && name !== host) {
    console.error(`navlock: ${name} can be built only on a machine of that kind, and this is ${host}; run this there`);
    process.exit(2);
  }
}

const manifest = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
const { version, license, repository: where, homepage, keywords } = manifest;
if (!values.out) rmSync(dist, { recursive: true, force: true });
for (const name of names) makePlatformPackage(name);
makePackage();

function makePlatformPackage(name) {
  const { os, cpu, libc } = targets[name];
  const built = build(name);
  const to = path.join(dist, packageOf(name));
  mkdirSync(path.join(to, 'bin'), { recursive: true });
  const { library, program } = fileNames[os];
  cpSync(path.join(built, library), path.join(to, 'navlock.node'));
  cpSync(path.join(built, program), path.join(to, 'bin', program));
  writeFileSync(path.join(to, 'README.md'), `# ${packageOf(name)}\n\nWhat the package \`navlock\` needs on ${name}. Install that one.\n`);
  write(to, {
    name: packageOf(name),
    version,
    description: `navlock for ${name}`,
    keywords,
    homepage,
    license,
    repository: where,
    type: 'commonjs',
    os: [os],
    cpu: [cpu],
    ...(libc && { libc: [libc] }),
    files: ['navlock.node', `bin/${program}`, ...licences],
    exports: { './navlock.node': './navlock.node', [`./bin/${program}`]: `./bin/${program}` },
    // Yarn should unpack this package and not keep it as one archive.
    preferUnplugged: true,
  });
}

function makePackage() {
  const to = path.join(dist, 'navlock');
  mkdirSync(to, { recursive: true });
  for (const what of ['js', 'types', 'register', 'README.md']) cpSync(path.join(folder, what), path.join(to, what), { recursive: true });
  const { name, description, type, main, types, typesVersions, exports, engines, bin } = manifest;
  // The packages of all targets, whether they were built here or not.
  const optionalDependencies = Object.fromEntries(Object.keys(targets).map((target) => [packageOf(target), version]));
  write(to, { name, version, description, keywords, homepage, license, repository: where, type, main, types, typesVersions, exports, bin, engines, files: ['js', 'types', 'register', ...licences], optionalDependencies });
}

function packageOf(name) {
  const { os, cpu, suffix } = targets[name];
  return `@navlock/${os}-${cpu}${suffix}`;
}

/** Builds the addon and the program, and returns their folder. */
function build(name) {
  const { zig, libc } = targets[name];
  // By default Rust links musl statically, and a library that is to be loaded cannot be built so.
  const variable = `CARGO_TARGET_${name.toUpperCase().replaceAll('-', '_')}_RUSTFLAGS`;
  const env = { ...process.env, ...(libc === 'musl' && { [variable]: '-C target-feature=-crt-static' }) };
  const words = values.target ? [zig === undefined ? 'build' : 'zigbuild', '--target', name + (zig ?? '')] : ['build'];
  execFileSync('cargo', [...words, '--release', ...packages], { cwd: folder, env, stdio: 'inherit' });
  const { target_directory: target } = JSON.parse(run('cargo', ['metadata', '--format-version', '1', '--no-deps']));
  return path.join(target, values.target ? name : '', 'release');
}

/** Writes the manifest and the licences of a package into its folder, and packs the folder into dist. */
function write(to, contents) {
  writeFileSync(path.join(to, 'package.json'), `${JSON.stringify(contents, null, 2)}\n`);
  for (const licence of licences) cpSync(path.join(repository, licence), path.join(to, licence));
  // On Windows npm is a script and no program. If npm has started this, the environment names that script.
  const npm = process.env.npm_execpath ? [process.execPath, process.env.npm_execpath] : ['npm'];
  const packed = run(npm[0], [...npm.slice(1), 'pack', '--silent', '--pack-destination', dist, to]).trim();
  console.log(path.relative(process.cwd(), path.join(dist, packed)));
}

function run(command, words) {
  return execFileSync(command, words, { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'] });
}
