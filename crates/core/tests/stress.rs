//! Real threads and tasks on real data. The data show every violation of exclusion or order.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::{
    collections::VecDeque,
    future::{Future, IntoFuture},
    pin::pin,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    thread,
};

use navlock_core::{LockManager, UserAgent, blocking::block_on};

/// A linear congruential generator. Its numbers differ between threads and between rounds, but not
/// between two runs of the test.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }
}

/// Data that readers and writers may touch only as the mode of their lock allows.
#[derive(Default)]
struct Guarded {
    data: RwLock<u64>,
    writes: AtomicUsize,
}

impl Guarded {
    fn write(&self) -> std::sync::RwLockWriteGuard<'_, u64> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.data.try_write().expect("an exclusive lock keeps everybody out")
    }
}

/// Lets other threads run while the data is in use, so that a violation shows.
fn yield_sometimes(numbers: &mut Numbers) {
    if numbers.below(16) == 0 {
        thread::yield_now();
    }
}

async fn readers_and_writers(locks: LockManager, tables: Arc<[Guarded; 3]>, seed: u64) {
    let mut numbers = Numbers(seed);
    for _ in 0..20_000 {
        let at = usize::try_from(numbers.below(3)).unwrap();
        let (name, table) = (format!("table {at}"), &tables[at]);
        match numbers.below(8) {
            0..3 => {
                let _guard = locks.lock(&name).shared().await.unwrap();
                let _reading = table.data.try_read().expect("a shared lock keeps writers out");
                yield_sometimes(&mut numbers);
            }
            3..6 => {
                let request = locks.request(&name, async |_| {
                    let mut writing = table.write();
                    *writing += 1;
                    yield_sometimes(&mut numbers);
                });
                request.await.unwrap();
            }
            6 => {
                if let Some(_guard) = locks.lock(&name).if_available().await.unwrap() {
                    *table.write() += 1;
                }
            }
            // The request is made, and then dropped.
            _ => {
                let mut request = pin!(locks.lock(&name).into_future());
                let _ = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
        }
    }
}

#[test]
fn readers_and_writers_in_tasks_and_threads_exclude_each_other() {
    let user_agent = UserAgent::new();
    let tables = Arc::<[Guarded; 3]>::default();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    thread::scope(|scope| {
        for seed in 0..3 {
            let (locks, tables) = (user_agent.lock_manager("stress"), Arc::clone(&tables));
            scope.spawn(move || block_on(readers_and_writers(locks, tables, seed)));
        }
        let tasks: Vec<_> = (10..18)
            .map(|seed| {
                let locks = user_agent.lock_manager("stress");
                tokio.spawn(readers_and_writers(locks, Arc::clone(&tables), seed))
            })
            .collect();
        for task in tasks {
            tokio.block_on(task).unwrap();
        }
    });
    for table in &*tables {
        let writes = table.writes.load(Ordering::Relaxed) as u64;
        assert_eq!(*table.data.read().unwrap(), writes);
        assert!(writes > 10_000, "the test writes");
    }
    let locks = user_agent.lock_manager("stress");
    let state = block_on(locks.query()).unwrap();
    assert!(state.held.is_empty() && state.pending.is_empty());
}

/// The order in which the requests for one name were made. It is known because the requests were
/// made one at a time.
#[derive(Default)]
struct Line {
    expected: Mutex<VecDeque<u64>>,
    next: AtomicUsize,
}

#[test]
fn grants_come_in_the_order_of_the_requests_of_a_name() {
    let locks = UserAgent::new().lock_manager("stress");
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let lines = Arc::<[Line; 2]>::default();
    let tasks: Vec<_> = (0..8_u64)
        .map(|seed| {
            let (locks, lines) = (locks.clone(), Arc::clone(&lines));
            tokio.spawn(async move {
                let mut numbers = Numbers(seed);
                for _ in 0..5_000 {
                    let at = usize::try_from(numbers.below(2)).unwrap();
                    let line = &lines[at];
                    let mut request = pin!(locks.lock(format!("line {at}")).into_future());
                    let (mine, first) = {
                        let mut expected = line.expected.lock().unwrap();
                        let mine = line.next.fetch_add(1, Ordering::Relaxed) as u64;
                        expected.push_back(mine);
                        let first = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                        (mine, first)
                    };
                    let guard = match first {
                        std::task::Poll::Ready(guard) => guard,
                        std::task::Poll::Pending => request.await,
                    };
                    assert_eq!(line.expected.lock().unwrap().pop_front(), Some(mine));
                    drop(guard.unwrap());
                }
            })
        })
        .collect();
    for task in tasks {
        tokio.block_on(task).unwrap();
    }
    let made: usize = lines.iter().map(|line| line.next.load(Ordering::Relaxed)).sum();
    assert_eq!(made, 40_000);
}

#[test]
fn agents_that_end_at_any_moment_leave_nothing_behind() {
    let user_agent = UserAgent::new();
    let table = Guarded::default();
    thread::scope(|scope| {
        for seed in 0..3 {
            let (user_agent, table) = (&user_agent, &table);
            scope.spawn(move || {
                let mut numbers = Numbers(seed);
                for _ in 0..300 {
                    let locks = user_agent.lock_manager("stress");
                    let work = async {
                        loop {
                            let Ok(guard) = locks.lock("db").await else { return };
                            // The work does not wait here, because an agent that is terminated
                            // during its work is not kept from going on with the work.
                            if numbers.below(4) == 0 {
                                locks.terminate();
                                drop(guard);
                            } else {
                                *table.write() += 1;
                            }
                        }
                    };
                    block_on(work);
                }
            });
        }
    });
    let state = block_on(user_agent.lock_manager("stress").query()).unwrap();
    assert!(state.held.is_empty() && state.pending.is_empty());
}
