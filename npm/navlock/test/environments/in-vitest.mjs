// A test file for vitest, in the environment that its command line names.

import { createRequire } from 'node:module';

import * as navlock from 'navlock';
import { test } from 'vitest';

const { checks } = createRequire(import.meta.url)('./checks.cjs');

for (const [name, check] of Object.entries(checks)) test(name, () => check(navlock));
