import navlock from './index.cjs';

export const { Lock, LockManager, createUserAgent, inspect, locks, requestMultiple } = navlock;
