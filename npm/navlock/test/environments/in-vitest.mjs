// Run by vitest, in the environment that it is told.

import { createRequire } from 'node:module';

import * as navlock from 'navlock';
import { test } from 'vitest';

const { checks } = createRequire(import.meta.url)('./checks.cjs');

for (const [name, check] of Object.entries(checks)) test(name, () => check(navlock));
