// navlock's locks in an engine embedded into Rust, as navlock-js-run registers them.

const { runtime } = globalThis;

export async function openRealm() {
  const { locks } = navigator;
  const { LockManager, Lock } = globalThis;
  return {
    locks,
    LockManager,
    Lock,
    // Tests run beside each other with one broker, and each has its own bucket "red".
    openBucket: (name) => runtime.openLocks('bucket', `${runtime.bucket} ${name}`),
    openUserAgent: () => (runtime.reach === 'process'
      ? runtime.openLocks('private', '')
      : runtime.openLocks('socket', `${runtime.environment('NAVLOCK_SOCKET')}-other`)),
  };
}
