// A program in navlock-js-run that a test watches from outside: only the program's own requests keep it alive.

import { createContext } from '../kit/context.mjs';

const { runtime } = globalThis;
const { realm, source } = JSON.parse(runtime.arguments[0]);
const { openRealm } = await import(`../realms/${realm}.mjs`);
const main = (0, eval)(`(${source})`);
await main(createContext(await openRealm(), { print: (line) => console.log(line), unreferencedTimer: runtime.unreferencedTimer }));
