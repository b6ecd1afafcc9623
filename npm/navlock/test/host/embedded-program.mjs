// A program in navlock-js-run that is looked at from outside: nothing but its own requests keeps it alive.

import { createContext } from '../kit/context.mjs';

const { runtime } = globalThis;
const { realm, source } = JSON.parse(runtime.arguments[0]);
const { openRealm } = await import(`../realms/${realm}.mjs`);
const main = (0, eval)(`(${source})`);
await main(createContext(await openRealm(), { print: (line) => console.log(line), unreferencedTimer: runtime.unreferencedTimer }));
