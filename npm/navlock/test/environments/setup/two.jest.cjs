const navlock = require('navlock');

const { tell } = require('./checks.cjs');

const timers = { fake: () => jest.useFakeTimers(), real: () => jest.useRealTimers(), advance: (ms) => jest.advanceTimersByTime(ms) };
tell({ afterAll, navlock, test, timers });
