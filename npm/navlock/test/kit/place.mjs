// A folder with the socket of a broker for one test.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
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
    // A broker or a client that lives makes removed files again. The broker is ended here. Some clients may end only with
    // this process, and start another broker until then.
    for (let tries = 5; ; tries--) {
      for (const broker of [socket, `${socket}.store-main`].filter((it) => existsSync(it))) {
        spawnSync(navlock, ['daemon', 'stop', '--socket', broker], { stdio: 'ignore' });
      }
      try {
        return rmSync(folder, { recursive: true, force: true, maxRetries: 40, retryDelay: 10 });
      } catch (error) {
        if (tries > 0) continue;
        // A failure here says nothing about the tested code.
        console.warn(`${folder} is left behind: ${error.message}`);
        return undefined;
      }
    }
  };
  return { folder, socket, remove };
}
