// Installs the packages that the tests of a folder need besides the development dependencies of the package, unless
// they are installed: node test/install.mjs FOLDER

import { execFileSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

/** @param {string} folder  with a package.json and a package-lock.json */
export function install(folder) {
  const installed = path.join(folder, 'node_modules', '.package-lock.json');
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(path.join(folder, 'package-lock.json')).mtimeMs) return;
  execFileSync('npm', ['ci', '--silent'], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) install(path.resolve(process.argv[2]));
