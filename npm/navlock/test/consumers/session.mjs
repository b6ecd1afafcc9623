// A program with a session that has expired, so it has to refresh the session first. It prints `ready`, and begins when
// it is told a line.
//
//     node session.mjs URL FOLDER

import { once } from 'node:events';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';

const [url, folder] = process.argv.slice(2);

// The package takes these for the sign of a browser. It looks for navigator.locks only in browsers.
globalThis.window = globalThis;
globalThis.document = { visibilityState: 'visible' };
globalThis.addEventListener ??= () => {};
const { GoTrueClient } = (await import('@supabase/auth-js')).default;

/** Storage that programs share, as the tabs of a browser share theirs. */
const file = (key) => path.join(folder, encodeURIComponent(key));
const storage = {
  getItem: (key) => {
    try {
      return readFileSync(file(key), 'utf8');
    } catch {
      return null;
    }
  },
  setItem: (key, value) => {
    writeFileSync(`${file(key)}.${process.pid}`, value);
    renameSync(`${file(key)}.${process.pid}`, file(key));
  },
  removeItem: (key) => rmSync(file(key), { force: true }),
};

console.log('ready');
await once(process.stdin, 'data');
const client = new GoTrueClient({ url, storage, storageKey: 'session', autoRefreshToken: false, detectSessionInUrl: false });
const { data, error } = await client.getSession();
console.log(error ? `failed ${error.code ?? error.message}` : `session ${data.session?.refresh_token}`);
process.exit(0);
