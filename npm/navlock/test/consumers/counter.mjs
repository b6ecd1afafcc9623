// Adds to a number in a database, as other processes do at the same time. Prints the number, begins when a line
// comes, and at the end prints how many times it has added to the number and how many times the database failed.
//
//     node counter.mjs FOLDER POLICY TIMES

import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';

import SQLiteESMFactory from '@journeyapps/wa-sqlite/dist/wa-sqlite-async.mjs';
import * as SQLite from '@journeyapps/wa-sqlite';

import { LockedFiles } from './files-vfs.mjs';

const [folder, lockPolicy, times] = process.argv.slice(2);
const wasmBinary = readFileSync(createRequire(import.meta.url).resolve('@journeyapps/wa-sqlite/dist/wa-sqlite-async.wasm'));
const wasm = await SQLiteESMFactory({ wasmBinary });
const sqlite3 = SQLite.Factory(wasm);
const vfs = new LockedFiles('files', wasm, { folder, lockPolicy });
sqlite3.vfs_register(vfs, true);
const database = await sqlite3.open_v2('database');

async function number() {
  let found;
  await sqlite3.exec(database, 'SELECT n FROM counter', ([n]) => (found = n));
  return found;
}

await sqlite3.exec(database, 'CREATE TABLE IF NOT EXISTS counter AS SELECT 0 AS n');
console.log(await number());
await once(process.stdin, 'data');
let added = 0;
let failed = 0;
while (added + failed < Number(times)) {
  try {
    // A transaction: without it, two connections could read the same number, and one addition would be lost.
    await sqlite3.exec(database, 'BEGIN');
    const n = await number();
    await delay(1);
    await sqlite3.exec(database, `UPDATE counter SET n = ${n + 1}; COMMIT`);
    added++;
  } catch (error) {
    await sqlite3.exec(database, 'ROLLBACK').catch(() => {});
    // Two connections have read and wish to write: one of them has to begin anew.
    if (error.code === SQLite.SQLITE_BUSY) await delay(Math.random() * 10);
    else failed++;
  }
}
console.log(JSON.stringify({ added, failed }));
process.exit(0);
