const navlock = require('navlock');

const { tell } = require('./checks.cjs');

const timers = { fake: () => jest.useFakeTimers(), real: () => jest.useRealTimers(), advance: (ms) => jest.advanceTimersByTime(ms) };
const anew = async () => {
  jest.resetModules();
  return require('navlock');
};
tell({ afterAll, anew, navlock, test, timers });
