//! Sources: a thread that is blocked for an answer waits at the source that the future offers, and
//! takes the answer there.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex},
    task::{Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock_core::blocking::{Source, block_on, block_on_timeout, offer};

/// A source that has news at every second wait.
#[derive(Default)]
struct Script {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether another thread is waiting at the source.
    is_taken: bool,
}

#[derive(Default)]
struct State {
    asker: Option<Waker>,
    waits: usize,
    interrupted: usize,
    left: usize,
    /// Whether a wait lasts until it is interrupted.
    holds: bool,
}

impl Source for Script {
    fn wait(&self, deadline: Option<Instant>, is_woken: &dyn Fn() -> bool) -> bool {
        if self.is_taken {
            return false;
        }
        let mut state = self.state.lock().unwrap();
        state.waits += 1;
        self.changed.notify_all();
        while state.holds && state.interrupted == 0 && !is_woken() {
            let Some(deadline) = deadline else {
                state = self.changed.wait(state).unwrap();
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
        let asker = if state.waits % 2 == 0 { state.asker.take() } else { None };
        drop(state);
        if let Some(asker) = asker {
            asker.wake();
        }
        true
    }

    fn interrupt(&self) {
        self.state.lock().unwrap().interrupted += 1;
        self.changed.notify_all();
    }

    fn leave(&self) {
        self.state.lock().unwrap().left += 1;
    }
}

/// A future of this source, which is ready with the first news.
async fn answer(script: &Arc<Script>) -> usize {
    news(script, 1).await
}

/// A future that is ready with the `count`-th news. Returns how often it was polled.
async fn news(script: &Arc<Script>, count: usize) -> usize {
    let mut polls = 0;
    poll_fn(|context| {
        polls += 1;
        let mut state = script.state.lock().unwrap();
        // The first poll has a waker that does nothing, and the second has the waker that counts.
        if polls > 1 + count {
            return Poll::Ready(polls);
        }
        state.asker = Some(context.waker().clone());
        drop(state);
        assert!(offer(|| Arc::clone(script) as Arc<dyn Source>), "polled by one that is blocked");
        Poll::Pending
    })
    .await
}

#[test]
fn only_who_is_blocked_takes_what_is_offered() {
    let unwanted = || -> Arc<dyn Source> { unreachable!("nobody wants it") };
    assert!(!offer(unwanted));
    block_on(answer(&Arc::default()));
    assert!(!offer(unwanted));
}

#[test]
fn a_thread_that_is_blocked_waits_at_the_source_until_its_answer_is_there_and_leaves() {
    let script = Arc::default();
    assert_eq!(block_on(answer(&script)), 3);
    let state = script.state.lock().unwrap();
    // The thread is not interrupted by what it does itself.
    assert_eq!((state.waits, state.left, state.interrupted), (2, 1, 0));
}

#[test]
fn a_waiting_thread_that_is_offered_the_same_source_again_stays_there() {
    let script = Arc::default();
    assert_eq!(block_on(news(&script, 3)), 5);
    let state = script.state.lock().unwrap();
    assert_eq!((state.waits, state.left), (6, 1));
}

#[test]
fn after_a_panic_in_a_future_nothing_is_wanted_any_more() {
    let failing = poll_fn(|_| -> Poll<()> { panic!("as a future may") });
    let panicked = catch_unwind(AssertUnwindSafe(|| block_on(failing)));
    assert!(panicked.is_err());
    assert!(!offer(|| unreachable!("nobody wants it")));
}

#[test]
fn a_nested_blocking_call_has_a_source_of_its_own() {
    let [outer, inner] = [Arc::<Script>::default(), Arc::default()];
    let mut has_blocked = false;
    let both = async {
        poll_fn(|_| {
            if !has_blocked {
                has_blocked = true;
                block_on(answer(&inner));
            }
            Poll::Ready(())
        })
        .await;
        answer(&outer).await
    };
    block_on(both);
    for script in [outer, inner] {
        let state = script.state.lock().unwrap();
        assert_eq!((state.waits, state.left), (2, 1));
    }
}

#[test]
fn a_thread_that_another_thread_wakes_leaves_the_source() {
    let script = Arc::new(Script {
        state: Mutex::new(State { holds: true, ..State::default() }),
        ..Script::default()
    });
    let waker = thread::spawn({
        let script = Arc::clone(&script);
        move || {
            let state = script.state.lock().unwrap();
            let mut state = script.changed.wait_while(state, |state| state.waits == 0).unwrap();
            let asker = state.asker.take().unwrap();
            drop(state);
            asker.wake();
        }
    });
    assert_eq!(block_on(answer(&script)), 3);
    waker.join().unwrap();
    let state = script.state.lock().unwrap();
    assert_eq!((state.waits, state.interrupted, state.left), (1, 1, 1));
}

#[test]
fn where_another_thread_is_at_the_source_one_sleeps_until_it_is_woken() {
    let script = Arc::new(Script { is_taken: true, ..Script::default() });
    let (told, hear) = std::sync::mpsc::channel();
    let waker = thread::spawn({
        let script = Arc::clone(&script);
        move || {
            hear.recv().unwrap();
            let asker = script.state.lock().unwrap().asker.take();
            asker.unwrap().wake();
        }
    });
    let mut polls = 0;
    let answer = poll_fn(|context| {
        polls += 1;
        if polls > 2 {
            return Poll::Ready(());
        }
        script.state.lock().unwrap().asker = Some(context.waker().clone());
        assert!(offer(|| Arc::clone(&script) as Arc<dyn Source>));
        if polls == 2 {
            told.send(()).unwrap();
        }
        Poll::Pending
    });
    block_on(answer);
    waker.join().unwrap();
    let state = script.state.lock().unwrap();
    assert_eq!((state.waits, state.left), (0, 1));
}

#[test]
fn no_wait_at_a_source_outlasts_its_time() {
    let script = Arc::new(Script {
        state: Mutex::new(State { holds: true, ..State::default() }),
        ..Script::default()
    });
    let never = poll_fn(|_| {
        assert!(offer(|| Arc::clone(&script) as Arc<dyn Source>));
        Poll::<()>::Pending
    });
    assert_eq!(block_on_timeout(never, Duration::from_millis(20)), None);
    let state = script.state.lock().unwrap();
    assert_eq!((state.waits, state.left), (1, 1));
}
