// `navigator.locks`, whoever else declares it.

import 'navlock/register';
import { locks } from 'navlock';

export const name: Promise<string | undefined> = navigator.locks.request('db', async (lock) => lock?.name);
export const ours: typeof navigator.locks = locks;
export const query: Promise<{ held?: object[] }> = navigator.locks.query();

// @ts-expect-error: it is read-only
navigator.locks = locks;
