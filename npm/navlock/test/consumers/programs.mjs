// Starts the programs that use a package: on the newest Node and the oldest, with our locks, in a bucket and with a
// broker of their own.

import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import path from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { openPlace as openFolder } from '../kit/place.mjs';
import { runtimes } from '../runtimes.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));

/** The newest Node and the oldest that we support. */
export const nodes = ['node', 'node20'].map((name) => ({ name, command: runtimes[name] }));

/** Whether a runtime has locks of its own. These are seen within one process. */
export function hasOwnLocks([file, ...flags]) {
  return execFileSync(file, [...flags, '-p', 'typeof globalThis.navigator?.locks'], { encoding: 'utf8' }).trim() === 'object';
}

/** A folder, a bucket and a broker that nobody else has. */
export function openPlace(context) {
  const { folder, socket, remove } = openFolder();
  context.after(remove);
  return { folder, env: { NAVLOCK_BUCKET: randomUUID(), NAVLOCK_SOCKET: socket } };
}

/** Starts a program of this folder, with our `navigator.locks` or with those of its Node, if there are any. */
export function start(context, { command: [file, ...flags], place, program, words = [], withNavlock = true }) {
  const register = pathToFileURL(path.join(here, '..', '..', 'js', 'register.mjs')).href;
  const preload = withNavlock ? ['--import', register] : [];
  const child = spawn(file, [...flags, ...preload, path.join(here, program), ...words], {
    env: { ...process.env, NAVLOCK_REACH: 'machine', ...place.env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  context.after(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    pid: child.pid,
    /** The next line that the program prints. */
    hear: async () => {
      const { value, done } = await lines.next();
      if (done) throw new Error(`${program} has ended without a word`);
      return value;
    },
    /** Gives the program a line to read. */
    tell: (words = '') => child.stdin.write(`${words}\n`),
    kill: async () => {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
    ended: async () => (child.exitCode ?? (await once(child, 'exit'))[0]),
  };
}
