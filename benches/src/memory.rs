//! What navlock keeps allocated.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fmt::Write as _,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicIsize, Ordering},
    task::{Context, Waker},
    time::Instant,
};

use navlock_core::{LockFuture, LockGuard, LockManager, UserAgent};

use crate::harness::Scale;

/// What navlock keeps allocated, beside what its callers keep.
pub(crate) struct Memory {
    /// Bytes and nanoseconds.
    pub(crate) per_held_lock: (f64, f64),
    pub(crate) per_waiter: (f64, f64),
    pub(crate) held: usize,
    pub(crate) waiters: usize,
    /// How many names were locked and released to measure what they leave.
    pub(crate) dead_names: usize,
    pub(crate) growth: isize,
    pub(crate) per_dead_name: f64,
    pub(crate) guard: usize,
    pub(crate) future: usize,
}

pub(crate) fn measure(scale: Scale) -> Memory {
    let (held, waiters, dead_names) =
        (scale.count(1_000_000), scale.count(1_000_000), scale.count(10_000_000));
    eprintln!("memory: {held} held");
    let per_held_lock = hold(held);
    eprintln!("memory: {waiters} waiters");
    let per_waiter = wait(waiters);
    eprintln!("memory: {dead_names} dead names");
    let (growth, per_dead_name) = forget(dead_names);
    Memory {
        per_held_lock,
        per_waiter,
        held,
        waiters,
        dead_names,
        growth,
        per_dead_name,
        guard: size_of::<LockGuard>(),
        future: size_of::<LockFuture<'static>>(),
    }
}

fn lock_manager() -> LockManager {
    UserAgent::new().lock_manager("bench")
}

/// Bytes and nanoseconds per held lock, with so many names.
fn hold(count: usize) -> (f64, f64) {
    let locks = lock_manager();
    let mut guards = Vec::with_capacity(count);
    let mut name = String::with_capacity(64);
    let start = Instant::now();
    let bytes = allocated_by(|| {
        for number in 0..count {
            set_name(&mut name, number);
            guards.push(locks.lock(&name).blocking().expect("the name is free"));
        }
    });
    (per(bytes, count), nanoseconds(start, count))
}

/// Bytes and nanoseconds per waiter for one name.
fn wait(count: usize) -> (f64, f64) {
    let locks = lock_manager();
    let holder = locks.lock("name").blocking().expect("the name is free");
    let mut context = Context::from_waker(Waker::noop());
    let mut futures: Vec<LockFuture<'_, LockGuard, _>> = Vec::with_capacity(count);
    let start = Instant::now();
    let bytes = allocated_by(|| {
        for _ in 0..count {
            let mut future = locks.lock("name").into_future();
            assert!(Pin::new(&mut future).poll(&mut context).is_pending());
            futures.push(future);
        }
    });
    let each = (per(bytes, count), nanoseconds(start, count));
    // The holder is dropped last, so that nothing is granted while the waiters are dropped.
    drop(futures);
    drop(holder);
    each
}

/// Bytes left by so many names after they were locked and released, and nanoseconds for each.
fn forget(count: usize) -> (isize, f64) {
    let locks = lock_manager();
    let mut name = String::with_capacity(64);
    let mut touch = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            set_name(&mut name, number);
            drop(locks.lock(&name).blocking().expect("the name is free"));
        }
    };
    // The first names make tables that later ones use again.
    touch(0..1000);
    let start = Instant::now();
    let bytes = allocated_by(|| touch(1000..1000 + count));
    (bytes, nanoseconds(start, count))
}

fn set_name(name: &mut String, number: usize) {
    name.clear();
    write!(name, "documents/{number}").expect("writing to a string succeeds");
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn per(bytes: isize, count: usize) -> f64 {
    bytes as f64 / count as f64
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn nanoseconds(start: Instant, count: usize) -> f64 {
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

/// The bytes that `work` allocates and does not free.
fn allocated_by(work: impl FnOnce()) -> isize {
    BYTES.store(0, Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    work();
    COUNTING.store(false, Ordering::Relaxed);
    BYTES.load(Ordering::Relaxed)
}

/// The system's allocator, which counts only while it is asked to, so that figures of time do not pay for the
/// counting.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicIsize = AtomicIsize::new(0);

#[inline]
fn count(bytes: impl FnOnce() -> isize) {
    if COUNTING.load(Ordering::Relaxed) {
        BYTES.fetch_add(bytes(), Ordering::Relaxed);
    }
}

#[inline]
fn signed(size: usize) -> isize {
    isize::try_from(size).unwrap_or(isize::MAX)
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(|| signed(layout.size()));
        // SAFETY: the caller keeps the contract of the same method.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(|| signed(layout.size()));
        // SAFETY: the caller keeps the contract of the same method.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(|| signed(new_size) - signed(layout.size()));
        // SAFETY: the caller keeps the contract of the same method.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(|| -signed(layout.size()));
        // SAFETY: the caller keeps the contract of the same method.
        unsafe { System.dealloc(pointer, layout) }
    }
}
