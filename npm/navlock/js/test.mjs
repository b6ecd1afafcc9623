// The setup module `navlock/test`, as vitest loads it, and jest in ECMAScript modules: once for each test file.

import process from 'node:process';

import { beginTestFile } from './test-file.cjs';

// The runner's own function, which is global only where that is asked for. Nobody else needs the package.
const { afterAll } = process.env.VITEST && !globalThis.afterAll ? await import('vitest') : globalThis;
beginTestFile(afterAll);
