//! Groups of threads. Threads of different groups use different counters, and so do not slow each other.

/// Into how many groups threads are divided.
pub(crate) const COUNT: usize = 16;

#[cfg(not(shuttle))]
thread_local! {
    static GROUP: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// The group of this thread.
#[cfg(not(shuttle))]
pub(crate) fn current() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);

    GROUP.get().unwrap_or_else(|| {
        let group = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        GROUP.set(Some(group));
        group
    })
}

/// The model checker's threads are no threads of the system. They form one group.
#[cfg(shuttle)]
pub(crate) fn current() -> usize {
    0
}
