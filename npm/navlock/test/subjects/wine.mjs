// Runs tests in processes of Node and Bun for Windows, on Wine. `cargo xtask windows addon` makes the folder for it.

import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';

import { executeModule, host, outcome } from './runtime.mjs';

/**
 * A folder with `node.exe` and `bun.exe`, in which brokers have their places. These subjects cannot be opened without
 * it.
 */
export const WINDOWS = process.env.NAVLOCK_WINDOWS;
const WINE = process.env.WINE ?? 'wine';

/** How much longer than its test a process may take: Wine takes a second to start one. */
const GRACE = 20_000;

const commands = {
  node: ['node.exe', '--no-warnings', '--expose-gc'],
  bun: ['bun.exe', 'run'],
};

/** The path of a file, as programs for Windows name the file. */
const named = (file) => `Z:${file.replaceAll('/', '\\')}`;

/** @returns {Promise<import('./index.mjs').Session>} */
export async function openWine({ runtime, reach }) {
  if (!WINDOWS) throw new Error('set NAVLOCK_WINDOWS to a folder with node.exe and bun.exe, as `cargo xtask windows addon` does');
  const [file, ...flags] = commands[runtime];
  const command = [named(path.join(WINDOWS, file)), ...flags];
  const version = execFileSync(WINE, [command[0], '--version'], { encoding: 'utf8' }).match(/\d+\.\d+\.\d+/)[0];
  const folder = mkdtempSync(path.join(WINDOWS, 'place-'));
  const socket = named(path.join(folder, 'sock'));
  const program = path.join(path.dirname(host('')), '..', 'bin', 'navlock.exe');
  const environment = () => ({ ...process.env, NAVLOCK_REACH: reach, NAVLOCK_BUCKET: randomUUID(), NAVLOCK_SOCKET: socket });
  return {
    version,
    run: async (test) => outcome(await executeModule(
      // `command` does not begin with Wine: the module, which starts other processes by it, runs on Windows itself.
      [WINE, ...command, named(host('test-process.mjs'))], { realm: 'navlock', command, test: test.name }, environment(), test.deadline + GRACE,
      // Files are used because Node for Windows does not know the pipes of Linux.
      folder,
    )),
    async close() {
      if (reach === 'machine') execFileSync(WINE, [named(program), 'daemon', 'stop', '--socket', socket], { stdio: 'ignore' });
      rmSync(folder, { recursive: true, force: true, maxRetries: 40, retryDelay: 10 });
    },
  };
}
