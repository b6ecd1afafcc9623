//! The backend suite: what every reach must do, tested through the public API.
//!
//! Each function is one test. The function gets its own user agent, and uses it as a program would.
//! It does not know which [`Backend`](navlock_core::host::Backend) answers. A macro makes tests of
//! all these functions:
//!
//! ```text
//! navlock_testkit::backend_suite!(navlock_core::UserAgent::new());
//! ```
//!
//! The rules are numbered as in CONFORMANCE.md.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "these are tests, though they do not look like it to a compiler: they panic to fail"
)]

pub mod any;
pub mod death;
pub mod grant;
pub mod isolation;
pub mod names;
pub mod options;
pub mod queue;
pub mod snapshot;
pub mod steal;

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, Condvar, Mutex},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use navlock_core::{Error, LockFuture, LockGuard, LockManager, LockRequest, Mode, UserAgent};

/// How long anything that must happen may take before a test fails.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Makes a `#[test]` of each function of the suite, for the reach of this user agent.
///
/// The expression is evaluated once for each test.
#[macro_export]
macro_rules! backend_suite {
    ($fresh:expr) => {
        $crate::backend_suite! { @all modules $fresh }
    };
    (@all $form:ident $($given:tt)*) => {
        $crate::backend_suite! { @$form $($given)*;
            queue [
                requests_of_one_name_are_granted_in_order
                an_aborted_writer_lets_the_readers_behind_it_in
                if_available_does_not_overtake_a_waiter
                a_reader_does_not_overtake_a_waiting_writer
                readers_at_the_head_are_granted_together
                twenty_thousand_waiters_drain_in_order
                names_do_not_wait_for_each_other
            ]
            grant [
                nothing_happens_before_the_future_is_polled
                a_grant_that_nobody_takes_goes_to_the_next
                a_callback_runs_under_the_lock_and_gives_its_result
                the_lock_is_free_once_the_request_has_settled
                a_callback_that_panics_releases
                a_callback_that_is_dropped_ends_before_its_lock
                if_available_runs_the_callback_without_a_lock
                fencing_tokens_grow_with_every_grant_of_a_name
                fencing_tokens_grow_over_the_life_of_a_bucket
                several_names_are_taken_in_one_order
                a_name_given_twice_is_taken_once
                several_names_are_taken_each_in_its_mode
                several_names_are_had_at_once_or_not_at_all
                a_failure_with_several_names_says_which
                losing_one_of_several_locks_releases_all
                a_lock_lost_while_another_is_waited_for_is_not_used
                losing_a_lock_ends_the_wait_for_another
                blocking_waits_for_its_turn
                blocking_within_blocking_wakes_both
                blocking_with_a_timeout_leaves_the_queue
            ]
            any [
                the_first_lock_that_is_free_is_had
                who_asked_first_for_one_of_several_is_served_first
                of_two_grants_at_one_moment_one_is_given_back
                who_gives_up_leaves_the_queues_of_all_names
                one_of_several_is_had_at_once_or_not_at_all
                a_failure_with_one_of_several_says_which_and_leaves_nothing
            ]
            steal [
                all_holders_lose_and_the_thief_goes_first
                a_victim_that_ends_later_changes_nothing
                the_last_of_two_thieves_wins
                a_victim_whose_callback_runs_is_dropped_where_it_waits
                a_victim_that_ends_as_it_is_robbed_has_lost
                a_victim_is_not_polled_once_it_is_robbed
                a_victim_that_was_not_told_of_its_grant_never_runs
                everybody_who_watches_a_lock_is_told_of_its_loss
                a_future_that_watches_no_more_is_forgotten
            ]
            options [
                checks_come_in_the_order_of_the_specification
                a_shared_lock_cannot_be_stolen
                every_failure_is_an_error_and_leaves_nothing_behind
                options_of_several_names_are_checked_before_the_first_lock_is_taken
            ]
            names [
                any_string_is_a_name
                names_that_differ_in_a_lone_surrogate_are_different
                a_hyphen_is_reserved_only_in_front
            ]
            death [
                termination_ends_requests_then_locks_then_wakes
                a_terminated_agent_gets_nothing_any_more
                an_agent_lives_as_long_as_a_guard
                dropping_everything_frees_everything
                closing_a_user_agent_ends_all_of_it
                closing_grants_nothing_to_whom_it_closes
                a_grant_that_its_task_has_not_heard_of_fails_as_a_wait_does
            ]
            snapshot [
                a_snapshot_shows_the_whole_bucket
                a_query_right_after_a_request_shows_it
                pending_is_in_the_order_of_the_grants
                an_aborted_request_is_gone_at_once
                every_agent_has_one_client_id
            ]
            isolation [
                buckets_do_not_see_each_other
                a_new_agent_is_no_heir_of_an_old_one
            ]
        }
    };
    (@modules $fresh:expr; $($module:ident [$($test:ident)*])*) => {
        $(mod $module {
            #[allow(unused_imports, reason = "the expression may name what stands around it")]
            use super::*;
            $(#[test]
            fn $test() {
                $crate::suite::$module::$test(&$fresh);
            })*
        })*
    };
    (@table; $($module:ident [$($test:ident)*])*) => {
        &[$($((concat!(stringify!($module), "::", stringify!($test)), $module::$test),)*)*]
    };
}

/// One test of the suite, with its name.
pub type Test = (&'static str, fn(&UserAgent));

/// All tests of the suite, for targets without `#[test]`.
pub const TESTS: &[Test] = backend_suite!(@all table);

/// Whether the target can block a thread and have several threads.
pub const HAS_THREADS: bool = !cfg!(target_arch = "wasm32");

/// The output of the future. The test fails if the future takes too long.
#[track_caller]
pub fn soon<T>(future: impl IntoFuture<Output = T>) -> T {
    match until_deadline(future) {
        Some(output) => output,
        None => panic!("waited for {DEADLINE:?} in vain"),
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn until_deadline<T>(future: impl IntoFuture<Output = T>) -> Option<T> {
    navlock_core::blocking::block_on_timeout(future, DEADLINE)
}

/// Polls the future when its waker is called. Meanwhile the event loop goes on; the thread is not blocked.
#[cfg(target_arch = "wasm32")]
fn until_deadline<T>(future: impl IntoFuture<Output = T>) -> Option<T> {
    let (mut future, test_waker) = (Box::pin(future.into_future()), Arc::new(TestWaker::default()));
    let waker = Waker::from(Arc::clone(&test_waker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        if !test_waker.is_woken_soon() {
            return None;
        }
    }
}

/// Lets the event loop take a turn, and returns the time after it. On targets where a thread cannot
/// be blocked, this must be set before the first test.
#[cfg(target_arch = "wasm32")]
pub static TURN: std::sync::OnceLock<fn() -> Duration> = std::sync::OnceLock::new();

/// A request that had to wait when it was made.
///
/// The request is polled when its waker is called, as a task is. So a test fails if nothing wakes the
/// request.
#[derive(Debug)]
pub struct Waiting<'a, G = LockGuard, N = &'static str> {
    future: Pin<Box<LockFuture<'a, G, N>>>,
    waker: Arc<TestWaker>,
}

/// A waker that remembers that it was called.
#[derive(Debug, Default)]
pub struct TestWaker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl TestWaker {
    /// Waits until the waker is called, unless it was called after the last call of this function.
    /// Returns `false` if that takes too long.
    #[must_use]
    #[cfg(not(target_arch = "wasm32"))]
    pub fn is_woken_soon(&self) -> bool {
        let woken = self.woken.lock().unwrap();
        let (mut woken, _) =
            self.changed.wait_timeout_while(woken, DEADLINE, |woken| !*woken).unwrap();
        std::mem::take(&mut woken)
    }

    /// As with threads, but this takes turns of the event loop while it waits.
    #[must_use]
    #[cfg(target_arch = "wasm32")]
    pub fn is_woken_soon(&self) -> bool {
        let turn = TURN.get().expect("it is said how the event loop takes a turn");
        let begin = turn();
        loop {
            if std::mem::take(&mut *self.woken.lock().unwrap()) {
                return true;
            }
            if turn() - begin > DEADLINE {
                return false;
            }
        }
    }
}

impl Wake for TestWaker {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl<'a, G: navlock_core::Grant, N: navlock_core::Named> Waiting<'a, G, N> {
    /// Makes the request, and asserts that it has to wait.
    #[track_caller]
    pub fn new(locks: &LockManager, request: LockRequest<'a, G, N>) -> Self {
        let future = Box::pin(request.into_future());
        let mut waiting = Self { future, waker: Arc::default() };
        let at_once = waiting.poll().is_ready();
        assert!(!at_once && waiting.still(locks), "the request was granted, and should wait");
        waiting
    }

    /// Whether the request still waits, once the bucket has handled everything that was asked
    /// before.
    #[track_caller]
    pub fn still(&mut self, locks: &LockManager) -> bool {
        settle(locks);
        self.poll().is_pending()
    }

    /// The lock that is granted. The test fails if the request fails.
    #[track_caller]
    pub fn granted(self) -> G {
        self.answered().expect("the request is granted")
    }

    /// The error with which the request fails. The test fails if the lock is granted.
    #[track_caller]
    pub fn failed(self) -> Error {
        self.answered().err().expect("the request fails")
    }

    #[track_caller]
    fn answered(mut self) -> Result<G, Error> {
        loop {
            let is_woken = self.waker.is_woken_soon();
            match self.poll() {
                Poll::Ready(_) if !is_woken => panic!("answered, and its waker was not called"),
                Poll::Ready(answer) => return answer,
                Poll::Pending if !is_woken => panic!("waited for {DEADLINE:?} in vain"),
                Poll::Pending => {}
            }
        }
    }

    fn poll(&mut self) -> Poll<Result<G, Error>> {
        let waker = Waker::from(Arc::clone(&self.waker));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// Waits until the bucket has handled everything that was asked of it before.
#[track_caller]
pub fn settle(locks: &LockManager) {
    soon(locks.query()).expect("the bucket can be queried");
}

/// An agent's handle in the bucket that most tests use.
fn agent(user_agent: &UserAgent) -> LockManager {
    user_agent.lock_manager("bucket")
}

#[track_caller]
fn exclusive(locks: &LockManager, name: &str) -> LockGuard {
    soon(locks.lock(name)).expect("an exclusive lock is granted")
}

#[track_caller]
fn shared(locks: &LockManager, name: &str) -> LockGuard {
    soon(locks.lock(name).shared()).expect("a shared lock is granted")
}

/// Locks or requests, as name and mode.
type Entries = Vec<(String, Mode)>;

/// The held locks and the pending requests.
#[track_caller]
fn snapshot(locks: &LockManager) -> (Entries, Entries) {
    let snapshot = soon(locks.query()).expect("the bucket can be queried");
    let plain = |infos: Vec<navlock_core::LockInfo>| {
        infos.into_iter().map(|info| (info.name.to_string(), info.mode)).collect()
    };
    (plain(snapshot.held), plain(snapshot.pending))
}

#[track_caller]
fn assert_nothing_is_left(locks: &LockManager) {
    assert_eq!(snapshot(locks), (vec![], vec![]));
}
