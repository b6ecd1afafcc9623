//! The word under a scheduler that tries interleavings of its single loads and exchanges.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p navlock-delegation --test shuttle` runs these tests,
//! and so does `cargo xtask test`. Without the flag, this file is empty. `tests/protocol` searches
//! all messages between clients and brokers, and all deaths. Here, threads of a client, of a broker
//! and of the broker after it use one word at the same moment.

#![cfg(shuttle)]

use std::sync::Arc;

use navlock_delegation::{GivenBack, Recalled, Released, Word};
use shuttle::{
    rand::{self, Rng},
    scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler},
    sync::atomic::{AtomicUsize, Ordering},
    thread::{self, JoinHandle},
};

/// How many interleavings of each scenario each random scheduler tries.
const TRIES: usize = 20_000;

fn run(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) -> usize {
    shuttle::Runner::new(scheduler, shuttle::Config::default()).run(scenario)
}

/// Runs the scenario in many interleavings.
fn explore(scenario: impl Fn() + Send + Sync + Copy + 'static) {
    run(RandomScheduler::new(TRIES), scenario);
    run(PctScheduler::new(3, TRIES), scenario);
}

/// Runs the scenario in every possible interleaving.
fn explore_all(scenario: impl Fn() + Send + Sync + Copy + 'static) {
    let all = run(DfsScheduler::new(None, false), scenario);
    assert!(all > 1, "there is one interleaving only");
}

/// A word that the client owns and nobody holds.
fn idle() -> Arc<Word> {
    let word = Word::default();
    let count = word.grant(false).expect("a new word is free");
    assert_eq!(word.release(count), Released::Kept);
    Arc::new(word)
}

/// A word that is held since its grant, and the count of the hold.
fn held() -> (Arc<Word>, u64) {
    let word = Word::default();
    let count = word.grant(false).expect("a new word is free");
    (Arc::new(word), count)
}

fn spawn<T: Send + 'static>(
    word: &Arc<Word>,
    does: impl FnOnce(&Word) -> T + Send + 'static,
) -> JoinHandle<T> {
    let word = word.clone();
    thread::spawn(move || does(&word))
}

#[test]
fn threads_of_an_owner_exclude_each_other() {
    explore(|| {
        let word = idle();
        let inside = Arc::new(AtomicUsize::new(0));
        let threads = [(); 3].map(|()| {
            let inside = inside.clone();
            spawn(&word, move |word| {
                let mut counts = Vec::new();
                for _ in 0..3 {
                    if let Some(count) = word.take() {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        counts.push(count);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        assert_eq!(word.release(count), Released::Kept);
                    }
                }
                counts
            })
        });
        let mut counts = threads.map(|thread| thread.join().unwrap()).concat();
        counts.sort_unstable();
        // The counts have no duplicates and no gaps.
        assert!(counts.iter().copied().eq(2..2 + counts.len() as u64), "{counts:?}");
    });
}

#[test]
fn after_a_recall_nothing_is_taken_and_its_end_is_told_once() {
    explore(|| {
        let word = idle();
        let owners = [(); 2].map(|()| {
            spawn(&word, |word| {
                let mut told = 0;
                for _ in 0..2 {
                    if let Some(count) = word.take() {
                        told += usize::from(word.release(count) == Released::Tell);
                    }
                }
                told
            })
        });
        let broker = spawn(&word, |word| {
            let recalled = word.recall();
            let then = word.look();
            assert!(then.count() == word.look().count(), "it was taken after it was recalled");
            assert!(recalled == Recalled::Held || then.is_free());
            usize::from(recalled == Recalled::Free)
        });
        let told: usize = owners.map(|owner| owner.join().unwrap()).iter().sum();
        assert_eq!(told + broker.join().unwrap(), 1);
        assert!(word.look().is_free());
    });
}

#[test]
fn one_of_all_who_end_a_delegation_has_ended_it() {
    explore_all(|| {
        let word = idle();
        let owner = spawn(&word, |word| {
            let count = word.take();
            count.is_some_and(|count| word.release(count) == Released::Tell)
        });
        let returned = spawn(&word, |word| word.give_back() == GivenBack::Freed);
        let broker = spawn(&word, |word| word.recall() == Recalled::Free);
        let ends = [owner, returned, broker].map(|thread| usize::from(thread.join().unwrap()));
        // If the broker finds a word free that another thread has freed just before, both report
        // the end.
        let [told, given, found] = ends;
        assert!(told + given <= 1 && told + given + found >= 1, "{ends:?}");
        assert!(word.look().is_free() && word.take().is_none());
    });
}

#[test]
fn a_hold_is_released_or_lost_and_both_sides_say_the_same() {
    for take_back in [Word::steal as fn(&Word) -> Recalled, Word::revoke] {
        explore_all(move || {
            let (word, count) = held();
            let holder = spawn(&word, move |word| word.release(count));
            let waiter = spawn(&word, Word::recall);
            let thief = spawn(&word, take_back);
            let released = holder.join().unwrap();
            let _ = waiter.join().unwrap();
            let was_held = thief.join().unwrap() == Recalled::Held;
            assert_eq!(was_held, released == Released::Gone);
            assert_eq!(was_held, word.look().is_lost());
            assert_eq!(!was_held, word.look().is_free());
        });
    }
}

#[test]
fn a_late_release_changes_nothing_of_what_was_granted_since() {
    explore_all(|| {
        let (word, old) = held();
        let stale = spawn(&word, move |word| (word.release(old), word.holds(old)));
        let broker = spawn(&word, |word| {
            let _ = word.steal();
            word.clear();
            word.grant(true)
        });
        let (_, holds) = stale.join().unwrap();
        assert!(!holds, "it holds what it has released");
        let new = broker.join().unwrap().expect("it was made free");
        assert_eq!(new, old + 1);
        assert!(word.holds(new) && !word.holds(old));
        assert_eq!(word.release(new), Released::Tell);
    });
}

/// Does what a broker does that dies after this many steps. The client of the second word waits for
/// the name that the client of the first word owns.
fn serve(words: &[Arc<Word>; 2], steps: usize) {
    let mut left = steps;
    let mut dies = || {
        left = left.saturating_sub(1);
        left == 0
    };
    let mut is_free = words[0].recall() == Recalled::Free;
    while !is_free && !dies() {
        thread::yield_now();
        // The word shows a release even if its holder could not tell any broker.
        is_free = words[0].look().is_free();
    }
    // An earlier broker may have granted the word without telling anybody.
    if is_free && !dies() && words[1].look().count() == 0 {
        assert_eq!(words[1].grant(true), Some(1));
    }
}

#[test]
fn an_heir_that_begins_at_any_moment_grants_nothing_that_is_held() {
    explore(|| {
        let words = [idle(), Arc::default()];
        let inside = Arc::new(AtomicUsize::new(0));
        let (enter, leave) = (inside.clone(), inside);
        let enter = move || assert_eq!(enter.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
        let leave = move || _ = leave.fetch_sub(1, Ordering::SeqCst);
        let (enters, leaves) = (enter.clone(), leave.clone());
        let owner = spawn(&words[0], move |word| {
            for _ in 0..3 {
                if let Some(count) = word.take() {
                    enters();
                    leaves();
                    let _ = word.release(count);
                }
            }
        });
        let waiter = spawn(&words[1], move |word| {
            while !word.holds(1) {
                thread::yield_now();
            }
            enter();
            leave();
            assert_eq!(word.release(1), Released::Tell);
        });
        let brokers = thread::spawn(move || {
            let steps = rand::thread_rng().gen_range(1..6);
            serve(&words, steps);
            serve(&words, usize::MAX);
        });
        for thread in [owner, waiter, brokers] {
            thread.join().unwrap();
        }
    });
}
