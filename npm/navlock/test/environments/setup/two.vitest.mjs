import { createRequire } from 'node:module';

import * as navlock from 'navlock';
import { afterAll, test, vi } from 'vitest';

const timers = { fake: () => vi.useFakeTimers(), real: () => vi.useRealTimers(), advance: (ms) => vi.advanceTimersByTime(ms) };
createRequire(import.meta.url)('./checks.cjs').tell({ afterAll, navlock, test, timers });
