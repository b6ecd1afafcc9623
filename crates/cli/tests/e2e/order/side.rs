//! One of two processes that take turns.

use std::{
    cell::OnceCell,
    io::{Read, Write, stdin},
    os::{fd::AsFd, unix::net::UnixStream},
};

use navlock::{
    BrokerReach, LockGuard, LockManager, LockManagerSnapshot, UserAgent, blocking::block_on_timeout,
};

use super::{acts, noise::Noise};
use crate::worker::{self, TIMEOUT};

/// The role of a process that takes turns with another one: `SIDE ACT NOISE`. The second one says how
/// often it was told what is wrong.
pub(crate) fn play(words: &[&str]) {
    let [which, act, noise] = words[..] else { panic!("{words:?}") };
    let act = acts::ALL.iter().find(|one| one.name == act).unwrap();
    let rounds = 0..act.rounds;
    let mut side = Side::of(Noise::of(noise, which == "first"));
    if which == "first" {
        rounds.for_each(|round| (act.first)(&mut side, round));
    } else {
        let wrong = rounds.filter(|&round| !(act.second)(&mut side, round)).count();
        worker::say(&wrong.to_string());
    }
}

/// One of the two: its end of the pipe, and its locks.
pub(super) struct Side {
    pipe: UnixStream,
    noise: Noise,
    /// None before they are needed: who has no connection can fork.
    connected: OnceCell<(BrokerReach, LockManager)>,
}

impl Side {
    fn of(noise: Noise) -> Self {
        let pipe = UnixStream::from(stdin().as_fd().try_clone_to_owned().unwrap());
        pipe.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { pipe, noise, connected: OnceCell::new() }
    }

    /// Has the other one go on.
    pub(super) fn tell(&mut self) {
        self.judge(true);
    }

    /// Has the other one go on, and tells it whether what was seen here was right.
    pub(super) fn judge(&mut self, is_right: bool) {
        self.pipe.write_all(&[is_right.into()]).unwrap();
    }

    /// Waits until the other one says so. Returns what it says of what it has seen.
    pub(super) fn hear(&mut self) -> bool {
        let mut byte = [0];
        self.pipe.read_exact(&mut byte).expect("the other one says something");
        byte == [1]
    }

    fn connected(&self) -> &(BrokerReach, LockManager) {
        self.connected.get_or_init(|| {
            let (reach, locks) = worker::connected();
            self.noise.begin(&reach);
            (reach, locks)
        })
    }

    pub(super) fn locks(&self) -> &LockManager {
        &self.connected().1
    }

    /// Another agent of this process, by the same connection.
    pub(super) fn another(&self) -> LockManager {
        another(&self.connected().0)
    }

    pub(super) fn lock(&self, name: &str) -> LockGuard {
        self.locks().lock(name).blocking_timeout(TIMEOUT).unwrap()
    }

    pub(super) fn try_lock(&self, name: &str) -> Option<LockGuard> {
        self.locks().lock(name).if_available().blocking_timeout(TIMEOUT).unwrap()
    }

    /// Takes the lock and releases it, up to three times: after that this process may own the name.
    pub(super) fn turns(&self, name: &str, round: usize) {
        (0..round % 4).for_each(|_| drop(self.lock(name)));
    }

    pub(super) fn query(&self) -> LockManagerSnapshot {
        block_on_timeout(self.locks().query(), TIMEOUT).expect("it is answered").unwrap()
    }
}

/// An agent of its own by this connection.
pub(super) fn another(reach: &BrokerReach) -> LockManager {
    UserAgent::with_reach(reach.clone()).lock_manager("default")
}
