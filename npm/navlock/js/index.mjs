import navlock from './index.cjs';

export const { Lock, LockManager, createUserAgent, hold, inspect, locks, look, report, requestAny, requestMultiple } = navlock;
