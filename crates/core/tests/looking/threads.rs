//! While threads lock, steal, give up and end, a looker sees no event twice and misses none.

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{
    UserAgent,
    blocking::block_on,
    host::MemoryReach,
    look::{LookOptions, News},
};

use super::{LONG, begin, fold::Fold, fold::said};

/// Sets the flag when it is dropped, even by a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Agents begin, lock, steal, give up, are ended and go, until `is_over`.
fn work(user_agent: &UserAgent, seed: u64, is_over: &AtomicBool, done: &AtomicU64) {
    let mut random = seed;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (random >> 33) % bound
    };
    while !is_over.load(Ordering::Relaxed) {
        let locks = user_agent.lock_manager(["app", "other"][usize::from(below(2) == 0)]);
        for _ in 0..below(40) {
            let name = format!("{}", below(6));
            let request = locks.lock(&name);
            let guard = match below(10) {
                0 => request.steal().blocking().ok(),
                1..4 => request.shared().blocking_timeout(Duration::from_millis(1)).ok(),
                4 => request.if_available().blocking().unwrap(),
                5 => {
                    let mut waits = pin!(request.into_future());
                    let _ = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    None
                }
                _ => request.blocking_timeout(Duration::from_millis(1)).ok(),
            };
            if below(8) == 0 {
                thread::yield_now();
            }
            drop(guard);
            done.fetch_add(1, Ordering::Relaxed);
        }
        match below(8) {
            0 => {
                let _held =
                    locks.lock("held at the end").blocking_timeout(Duration::from_millis(1));
                locks.terminate();
            }
            1 => {
                let forgotten = user_agent.lock_manager("forgotten");
                std::mem::forget(forgotten.lock("x").shared().blocking());
            }
            _ => {}
        }
    }
}

#[test]
fn while_threads_lock_steal_and_end_each_look_adds_up_whenever_it_began() {
    let user_agent = UserAgent::with_memory(MemoryReach::default().with_shards(4));
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (is_over, done) = (&is_over, &done);
    thread::scope(|scope| {
        let at_end = End(is_over);
        for seed in 1..5 {
            let user_agent = &user_agent;
            scope.spawn(move || work(user_agent, seed, is_over, done));
        }
        let (mut pictures, mut events) = (0, 0);
        let deadline = Instant::now() + LONG;
        // Each look begins and ends while the threads go on.
        for _ in 0..40 {
            let mut looker = begin(&user_agent, LookOptions::default());
            let mut fold = Fold::of_picture(looker.overview());
            for _ in 0..50 {
                match looker.next(Some(LONG)).unwrap().unwrap() {
                    News::Events(some) => {
                        events += some.len();
                        for event in &some {
                            fold.apply(event);
                        }
                    }
                    News::Anew { missed } => {
                        assert!(missed > 0);
                        pictures += 1;
                        fold = Fold::of_picture(looker.overview());
                    }
                    other => panic!("{other:?}"),
                }
                assert_eq!(fold, Fold::of(looker.overview()));
            }
            assert!(Instant::now() < deadline, "{pictures} pictures, {events} events");
        }
        let mut last = begin(&user_agent, LookOptions::default());
        drop(at_end);
        while done.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        // All agents have ended when the only ones left are those whose guards were forgotten.
        let deadline = Instant::now() + LONG;
        let is_over = |last: &navlock_core::look::Looker| {
            let mut left = last.overview().agents.values();
            left.all(|agent| &*agent.bucket == "forgotten")
        };
        while !is_over(&last) {
            assert!(Instant::now() < deadline);
            let _ = last.next(Some(Duration::from_millis(10))).unwrap();
        }
        println!(
            "{} requests, {pictures} pictures anew, {events} events",
            done.load(Ordering::Relaxed)
        );
    });
    let mut last = begin(&user_agent, LookOptions::default());
    assert_eq!(last.next(Some(Duration::ZERO)), Ok(None));
    for bucket in ["app", "other", "forgotten"] {
        let asked = block_on(user_agent.lock_manager(bucket).query().into_future()).unwrap();
        assert_eq!(Fold::of(last.overview()).said(bucket), said(bucket, &asked));
    }
}
