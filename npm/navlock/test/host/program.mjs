// A program that a test watches from outside: only the program's own requests keep it alive.

import { writeSync } from 'node:fs';
import process from 'node:process';

import { createContext } from '../kit/context.mjs';
import { unreferencedTimer } from './timer.mjs';

const { realm, source } = JSON.parse(process.argv[2]);
const { openRealm } = await import(`../realms/${realm}.mjs`);
const print = (line) => writeSync(1, `${line}\n`);
const main = (0, eval)(`(${source})`);
await main(createContext(await openRealm(), { print, unreferencedTimer }));
