import navlock from './index.cjs';

export const { Lock, LockManager, createUserAgent, inspect, locks, report, requestMultiple } = navlock;
