import { test } from 'vitest';

import { check } from './check.cjs';

test('a window that is closed has no locks any more', check);
