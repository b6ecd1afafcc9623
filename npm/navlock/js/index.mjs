import navlock from './index.cjs';

export const { Lock, LockManager, createUserAgent, hold, inspect, locks, report, requestMultiple } = navlock;
