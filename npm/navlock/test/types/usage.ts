// What programs write, with any library of types that has AbortSignal. Checked, never run.

import {
  Lock, LockManager, createUserAgent, hold, inspect, locks, look, report, requestAny, requestMultiple,
  type HeldLock, type LockInfo, type LossCause, type LockManagerSnapshot, type LockOptions, type LookEvent, type LookPicture, type Reach, type UserAgent,
} from 'navlock';
import 'navlock/register';

/** An error unless both types are the same. */
function exactly<A, B>(..._: (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? [] : ['different types']) {}

export async function request(signal: AbortSignal) {
  const sum = await locks.request('db', async (lock) => {
    exactly<typeof lock, Lock>();
    return lock.name.length;
  });
  exactly<typeof sum, number>();

  const shared = await locks.request('db', { mode: 'shared', signal }, (lock) => lock.mode);
  exactly<typeof shared, 'exclusive' | 'shared'>();

  const taken = await locks.request('db', { ifAvailable: true }, (lock) => {
    exactly<typeof lock, Lock | null>();
    return lock !== null;
  });
  exactly<typeof taken, boolean>();

  const options: LockOptions = {};
  await locks.request('db', options, (lock) => exactly<typeof lock, Lock | null>());

  // @ts-expect-error
  await locks.request('db', { mode: 'none' }, () => {});
  // @ts-expect-error
  await locks.request('db');
}

export async function query(): Promise<LockInfo[]> {
  const snapshot = await locks.query();
  exactly<typeof snapshot, LockManagerSnapshot>();
  return [...snapshot.held, ...snapshot.pending];
}

export function userAgents() {
  const userAgent: UserAgent = createUserAgent({ reach: 'process', private: true });
  const manager: LockManager = userAgent.bucket('red').locks;
  exactly<typeof userAgent.reach, Reach>();
  // @ts-expect-error
  createUserAgent({ reach: 'moon' });
  return manager;
}

export async function holding(signal: AbortSignal) {
  const held = await hold(locks, 'db', { mode: 'shared', signal });
  exactly<typeof held, HeldLock>();
  exactly<typeof held.lost, AbortSignal>();
  await held.release();
  const taken = await hold(locks, 'db', { ifAvailable: true });
  exactly<typeof taken, HeldLock | null>();
  if (taken !== null) exactly<ReturnType<(typeof taken)[typeof Symbol.asyncDispose]>, Promise<void>>();
  // @ts-expect-error
  await hold({}, 'db');

  report({ held: 5000, waiting: 1000, stacks: true, strict: 'warn' });
  // @ts-expect-error
  report({ strict: 'maybe' });
}

export function whyLost(error: Error & { cause?: LossCause }): string | undefined {
  return error.cause?.code === 'STOLEN' ? error.cause.clientId : undefined;
}

export async function looking(signal: AbortSignal): Promise<number> {
  let waited = 0;
  for await (const news of look(locks, { name: 'db', allBuckets: false, signal })) {
    exactly<typeof news, LookPicture | LookEvent>();
    if (news.event === 'picture') {
      for (const { name, mode, clientId, pid } of [...news.held, ...news.pending]) exactly<[typeof name, typeof mode, typeof clientId, typeof pid], [string, 'exclusive' | 'shared', string, number | undefined]>();
      exactly<typeof news.missed, number>();
      exactly<typeof news.leftOut, number>();
    } else if (news.event === 'granted') {
      waited += news.ageMs ?? 0;
      break;
    }
  }
  // @ts-expect-error
  look(locks, { bucket: 'red' });
  return waited;
}

export async function extras(value: unknown) {
  await locks.request('db', (lock) => {
    const { changed, clientId, fencingToken, lost } = inspect(lock);
    exactly<[typeof changed, typeof clientId, typeof fencingToken, typeof lost], [boolean, string, bigint, AbortSignal]>();
  });
  const count = await requestMultiple(locks, new Set(['from', 'to']), async (all) => all.length);
  exactly<typeof count, number>();
  await requestMultiple(locks, ['a'], { ifAvailable: true }, (all) => exactly<typeof all, Lock[] | null>());
  // @ts-expect-error
  await requestMultiple(locks, ['a'], { steal: true }, () => {});
  const name = await requestAny(locks, new Set(['a', 'b']), async (lock) => lock.name);
  exactly<typeof name, string>();
  await requestAny(locks, ['a'], { ifAvailable: true }, (lock) => exactly<typeof lock, Lock | null>());
  if (value instanceof Lock) exactly<typeof value, Lock>();
  // @ts-expect-error
  new LockManager();
}
