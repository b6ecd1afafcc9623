//! What the killed processes do.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::FileExt,
    process, thread,
    time::Duration,
};

use navlock::{Error, LockGuard, LockManager, Mode};

use super::{NAMES, STOP, VIOLATIONS, dice::Dice, witness::Witness};
use crate::worker::{self, TIMEOUT, note};

/// Writes the state of a process into its file: the first byte says whether it waits or holds, the next ones
/// have its number or the state of its other thread.
fn say_state(file: &File, at: u64, state: &str) {
    file.write_all_at(state.as_bytes(), at).unwrap();
}

/// The role of a process that uses the library: locks one name after the other, in one thread or
/// two.
pub(crate) fn client(words: &[&str]) {
    let [state, seed] = words else { panic!("{words:?}") };
    let seed: u64 = seed.parse().unwrap();
    let open = || NAMES.map(Witness::open);
    let (mine, others) = (open(), open());
    let state = &File::create(state).unwrap();
    let locks = &worker::locks();
    thread::scope(|scope| {
        if seed % 2 == 0 {
            scope.spawn(move || lock_one_after_the_other(locks, others, Dice(!seed), state, 1));
        }
        lock_one_after_the_other(locks, mine, Dice(seed), state, 0);
    });
}

fn lock_one_after_the_other(
    locks: &LockManager,
    mut witnesses: [Witness; NAMES.len()],
    mut dice: Dice,
    state: &File,
    at: u64,
) {
    let pid = process::id();
    while !fs::exists(STOP).unwrap() {
        let witness = &mut witnesses[dice.below(NAMES.len())];
        say_state(state, at, "w");
        let Some(guard) = lock(locks, witness.name, &mut dice) else {
            continue;
        };
        say_state(state, at, "h");
        let (mode, token) = (guard.mode(), guard.fencing_token().to_string());
        let most = if dice.chance(10) { 200 } else { 10 };
        witness.see(mode, &token, || dice.pass(most));
        if guard.is_lost() {
            note(VIOLATIONS, &format!("{pid} has lost {} {mode} {token}", witness.name));
        }
        drop(guard);
        say_state(state, at, "i");
        dice.pass(3);
    }
}

/// Asks for a lock in one of the possible ways.
fn lock(locks: &LockManager, name: &str, dice: &mut Dice) -> Option<LockGuard> {
    let request = locks.lock(name);
    let request = if dice.chance(2) { request.shared() } else { request };
    let (guard, may_fail) = match dice.below(8) {
        0 => {
            let guard = request.if_available().blocking_timeout(TIMEOUT);
            (
                guard
                    .map(|guard| guard.ok_or(Error::TimedOut(String::new())))
                    .and_then(|guard| guard),
                true,
            )
        }
        // Aborts may cross grants.
        1 => (request.blocking_timeout(Duration::from_micros(dice.next() % 50_000)), true),
        _ => (request.blocking_timeout(TIMEOUT), false),
    };
    match guard {
        Ok(guard) => Some(guard),
        Err(Error::TimedOut(_)) if may_fail => None,
        Err(error) => {
            note(VIOLATIONS, &format!("{} cannot have {name}: {error}", process::id()));
            None
        }
    }
}

/// The role of what `navlock run` runs.
pub(crate) fn command(words: &[&str]) {
    let [state, milliseconds] = words else { panic!("{words:?}") };
    let [name, mode, token] =
        ["NAVLOCK_NAME", "NAVLOCK_MODE", "NAVLOCK_FENCE"].map(|name| env::var(name).unwrap());
    let mut witness = Witness::open(&name);
    let mode = if mode == "shared" { Mode::Shared } else { Mode::Exclusive };
    let state = File::create(state).unwrap();
    say_state(&state, 0, &format!("h{:010}", process::id()));
    let work = Duration::from_millis(milliseconds.parse().unwrap());
    // Nothing is waited for: this is the work, during which processes are killed.
    witness.see(mode, &token, || thread::sleep(work));
    say_state(&state, 0, "e");
}
