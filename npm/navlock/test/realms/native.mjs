// The runtime's own locks, `navigator.locks`.

export async function openRealm() {
  const { locks } = navigator;
  if (!locks) throw new Error('this runtime has no navigator.locks');
  const { LockManager, Lock } = globalThis;
  return { locks, LockManager, Lock };
}
