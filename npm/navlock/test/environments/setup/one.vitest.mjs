import { createRequire } from 'node:module';

import * as navlock from 'navlock';
import { afterAll, test, vi } from 'vitest';

const timers = { fake: () => vi.useFakeTimers(), real: () => vi.useRealTimers(), advance: (ms) => vi.advanceTimersByTime(ms) };
const anew = async () => {
  vi.resetModules();
  return await import('navlock');
};
createRequire(import.meta.url)('./checks.cjs').tell({ afterAll, anew, navlock, test, timers });
