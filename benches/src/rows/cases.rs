//! What the cases have in common.

use std::{hint::black_box, time::Instant};

use crate::contender::Contender;

/// The entries of a row: each of these types, measured by this function.
macro_rules! contenders {
    ($measure:ident, $($contender:ty),+ $(,)?) => {
        vec![$($crate::harness::Entry::of::<$contender>($measure::<$contender>)),+]
    };
}

/// The entries of a row of exclusive locks: navlock, these floors, and all peers.
macro_rules! exclusive {
    ($measure:ident, $($floor:ty),+) => {{
        use $crate::contender::{
            AsyncLock, EvictingDashMap, KeyMutex, KeyRwLock, KeyedLock, Lockable, Navlock, Tokio,
        };
        contenders![
            $measure, Navlock, $($floor,)+ Tokio, AsyncLock, EvictingDashMap, KeyRwLock, KeyMutex,
            KeyedLock, Lockable
        ]
    }};
}

/// A name that is as long as names usually are.
pub(super) const NAME: &str = "documents/42/body";

pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}/{number:07}")).collect()
}

/// Takes and releases the lock of each name in turn: nanoseconds for each.
#[inline]
pub(super) async fn take_each<'a, L: Contender>(
    locks: &'a L,
    names: impl ExactSizeIterator<Item = &'a str>,
) -> f64 {
    let count = names.len();
    let start = Instant::now();
    for name in names {
        drop(black_box(locks.acquire(black_box(name)).await));
    }
    nanoseconds_each(start, count)
}

/// Takes and releases the lock of one name `count` times: nanoseconds for each.
pub(super) async fn take_repeatedly<L: Contender>(locks: &L, name: &str, count: usize) -> f64 {
    take_each(locks, (0..count).map(|_| name)).await
}

pub(super) fn nanoseconds_each(start: Instant, count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let count = count as f64;
    start.elapsed().as_secs_f64() * 1e9 / count
}

/// The same shuffle every time, so that all contenders walk memory in the same disorder.
pub(super) fn shuffle<T>(items: &mut [T]) {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for end in (1..items.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        #[expect(clippy::cast_possible_truncation, reason = "less than `end`")]
        let other = (random % (end as u64 + 1)) as usize;
        items.swap(end, other);
    }
}
