// navlock's locks, as `navlock/register` installs them.

import process from 'node:process';

import { Lock, LockManager, createUserAgent, locks } from '../../js/index.mjs';

export async function openRealm() {
  await import('../../js/register.mjs');
  const reach = process.env.NAVLOCK_REACH;
  return {
    locks,
    LockManager,
    Lock,
    // Tests run beside each other with one broker, and each has its own bucket "red".
    openBucket: (name) => createUserAgent().bucket(`${process.env.NAVLOCK_BUCKET} ${name}`).locks,
    openUserAgent: () => createUserAgent(reach === 'process'
      ? { reach, private: true }
      : { reach, socket: `${process.env.NAVLOCK_SOCKET}-other` }).locks,
  };
}
