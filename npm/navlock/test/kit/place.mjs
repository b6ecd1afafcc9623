// A folder with the socket of a broker that nobody else has.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The command line that comes with the package. */
export const program = fileURLToPath(new URL('../../bin/navlock', import.meta.url));

/**
 * @param {string} [navlock]  another command line, by which the brokers are ended
 * @returns {{ folder: string, socket: string, remove: () => void }}
 */
export function openPlace(navlock = program) {
  const folder = mkdtempSync(path.join(tmpdir(), 'navlock-test-'));
  const socket = path.join(folder, 'sock');
  const remove = () => {
    // While a broker or a client lives it makes its files anew: the one is ended here, and of the other
    // there may be some that end only with this process, and start another broker until then.
    for (let tries = 5; ; tries--) {
      spawnSync(navlock, ['daemon', 'stop', '--socket', socket], { stdio: 'ignore' });
      try {
        return rmSync(folder, { recursive: true, force: true, maxRetries: 40, retryDelay: 10 });
      } catch (error) {
        if (tries > 0) continue;
        // It says nothing of what was tested.
        console.warn(`${folder} is left behind: ${error.message}`);
        return undefined;
      }
    }
  };
  return { folder, socket, remove };
}
