// The package as its users get it.

import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

/** The folder of the package in the repository. */
export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..', '..');

/** A folder with packages that were made for a release, if it is set. Then these are tested, and nothing is built. */
const released = process.env.NAVLOCK_PACKED;

/**
 * The ways to make the packages. Each function packs into a folder.
 *
 * @type {Record<string, (folder: string) => string[]>} returns the paths of the packages
 */
export const layouts = released ? { 'as it is released': () => packed(released) } : {
  'with what was built beside it': (folder) => {
    npm(root, 'pack', '--pack-destination', folder);
    return packed(folder);
  },
  'with a package for the platform': (folder) => {
    execFileSync(process.execPath, [path.join(root, 'scripts', 'release.mjs'), '--out', folder], { stdio: ['ignore', 'ignore', 'inherit'] });
    return packed(folder);
  },
};

function packed(folder) {
  return readdirSync(folder).filter((file) => file.endsWith('.tgz')).map((file) => path.join(folder, file));
}

/** Whether npm installs this package here. There may be packages for other systems, too. */
export function isForHere(tarball) {
  const manifest = JSON.parse(execFileSync('tar', ['-xOf', tarball, 'package/package.json'], { encoding: 'utf8' }));
  const { glibcVersionRuntime } = process.report.getReport().header;
  const here = { os: process.platform, cpu: process.arch, libc: glibcVersionRuntime ? 'glibc' : 'musl' };
  return Object.entries(here).every(([what, is]) => manifest[what]?.includes(is) ?? true);
}

export function npm(cwd, ...words) {
  return execFileSync('npm', [...words, '--silent', '--no-audit', '--no-fund'], { cwd, encoding: 'utf8' });
}
