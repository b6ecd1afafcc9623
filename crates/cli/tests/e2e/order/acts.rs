//! What the two processes do in their turns, where none of them dies.

use std::{
    future::IntoFuture,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Instant,
};

use navlock::{LockInfo, LockManagerSnapshot, blocking::block_on_timeout};

use super::{deaths::DEATH, side::Side};
use crate::worker::TIMEOUT;

/// How often the two take turns, where a turn takes no time worth mentioning.
const ROUNDS: usize = 1000;

/// What the two do in a round.
pub(super) struct Act {
    pub(super) name: &'static str,
    /// How often the two take turns.
    pub(super) rounds: usize,
    pub(super) first: fn(&mut Side, round: usize),
    /// Returns whether it was told what is right.
    pub(super) second: fn(&mut Side, round: usize) -> bool,
}

/// All acts, by which a process finds its own.
pub(super) const ALL: [&Act; 10] = [
    &RELEASE,
    &DEATH,
    &ABORT,
    &ABORT_SEEN,
    &GRANT,
    &THEFT,
    &REQUESTS,
    &REQUESTS_MEANWHILE,
    &TURNS_MEANWHILE,
    &ANSWERS,
];

pub(super) const RELEASE: Act = Act {
    name: "release→ifAvailable",
    rounds: ROUNDS,
    first: |side, round| {
        side.turns("x", round);
        let held = side.lock("x");
        let_ask_before(side, round);
        drop(held);
        side.tell();
        side.hear();
    },
    second: |side, round| {
        let is_had_before = ask_before(side, round, |side| side.try_lock("x").is_some());
        side.hear();
        let is_had = side.try_lock("x").is_some();
        side.tell();
        is_had && !is_had_before
    },
};

/// In every other four rounds, lets the second one ask before this side does what counts: the broker has just
/// answered it then, and is about to look whether it says more.
pub(super) fn let_ask_before(side: &mut Side, round: usize) {
    if round / 4 % 2 == 1 {
        side.tell();
        side.hear();
    }
}

/// What the second one is told before, if it asks in this round.
pub(super) fn ask_before(side: &mut Side, round: usize, ask: fn(&Side) -> bool) -> bool {
    round / 4 % 2 == 1 && {
        side.hear();
        let told = ask(side);
        side.tell();
        told
    }
}

/// The second one holds the lock for reading, and may read it twice as long as no writer waits.
pub(super) const ABORT: Act = Act {
    name: "abort→ifAvailable",
    rounds: ROUNDS,
    first: |side, round| {
        side.hear();
        abort(side, round);
        side.tell();
        side.hear();
    },
    second: |side, round| {
        let held = side.locks().lock("x").shared().blocking_timeout(TIMEOUT).unwrap();
        let another = side.another();
        side.tell();
        ask_before(side, round, |side| side.query().held.is_empty());
        side.hear();
        let again = another.lock("x").shared().if_available().blocking_timeout(TIMEOUT).unwrap();
        drop(held);
        side.tell();
        again.is_some()
    },
};

pub(super) const ABORT_SEEN: Act = Act {
    name: "abort→query",
    rounds: ROUNDS,
    first: |side, round| {
        side.hear();
        abort(side, round);
        side.tell();
        side.hear();
    },
    second: |side, round| {
        let held = side.lock("x");
        side.tell();
        ask_before(side, round, |side| side.query().held.is_empty());
        side.hear();
        let seen = side.query();
        drop(held);
        side.tell();
        !has(&seen.pending, "x")
    },
};

/// Makes a request that has to wait, and aborts it.
fn abort(side: &mut Side, round: usize) {
    let locks = side.locks().clone();
    let mut request = Box::pin(locks.lock("x").into_future());
    assert!(poll(request.as_mut()).is_pending());
    if round % 2 == 1 {
        // The broker knows of the request by then.
        side.query();
    }
    let_ask_before(side, round);
}

pub(super) const GRANT: Act = Act {
    name: "grant→ifAvailable",
    rounds: ROUNDS,
    first: |side, round| {
        side.turns("x", round);
        let held = side.lock("x");
        side.tell();
        side.hear();
        drop(held);
    },
    second: |side, _| {
        side.hear();
        let is_had = side.try_lock("x").is_some();
        side.tell();
        !is_had
    },
};

pub(super) const THEFT: Act = Act {
    name: "theft→query",
    rounds: ROUNDS,
    first: |side, _| {
        side.hear();
        let held = side.locks().lock("x").steal().blocking_timeout(TIMEOUT).unwrap();
        side.tell();
        side.hear();
        drop(held);
    },
    second: |side, round| {
        side.turns("x", round);
        let held = side.lock("x");
        side.tell();
        side.hear();
        let seen = side.query();
        let holders: Vec<_> = seen.held.iter().filter(|lock| lock.name == "x").collect();
        let is_thiefs = holders.len() == 1 && holders[0].client_id != side.locks().client_id();
        let is_right = is_thiefs && held.is_lost();
        side.tell();
        is_right
    },
};

/// The first request waits, the second one does not.
pub(super) const REQUESTS: Act = Act {
    name: "requests→query",
    rounds: ROUNDS,
    first: |side, round| {
        side.turns("y", round);
        side.hear();
        request_both(side, true);
    },
    second: |side, _| {
        let held = side.lock("x");
        side.tell();
        side.hear();
        let seen = side.query();
        drop(held);
        side.tell();
        has(&seen.held, "y") && has(&seen.pending, "x")
    },
};

/// The same, and the second one looks while the first one asks.
pub(super) const REQUESTS_MEANWHILE: Act = Act {
    name: "requests,query",
    rounds: ROUNDS,
    first: |side, round| {
        side.turns("y", round);
        side.hear();
        side.tell();
        request_both(side, false);
    },
    second: |side, _| {
        let held = side.lock("x");
        side.tell();
        side.hear();
        let seen = query_until_held(side, "y");
        drop(held);
        side.tell();
        has(&seen.pending, "x")
    },
};

fn request_both(side: &mut Side, tells: bool) {
    let locks = side.locks().clone();
    let mut waiting = Box::pin(locks.lock("x").into_future());
    assert!(poll(waiting.as_mut()).is_pending());
    let held = side.lock("y");
    if tells {
        side.tell();
    }
    side.hear();
    drop(waiting);
    drop(held);
}

/// The first one releases one lock and takes another, while the second one looks.
pub(super) const TURNS_MEANWHILE: Act = Act {
    name: "release+request,query",
    rounds: ROUNDS,
    first: |side, round| {
        side.turns("y", round);
        let held = side.lock("x");
        side.tell();
        drop(held);
        let next = side.lock("y");
        side.hear();
        drop(next);
        side.tell();
    },
    second: |side, _| {
        side.hear();
        let seen = query_until_held(side, "y");
        side.tell();
        side.hear();
        !has(&seen.held, "x")
    },
};

/// Of these requests of one agent, the first and the last can be granted without asking the broker, and the
/// third one is refused, because the second process holds the lock.
pub(super) const ANSWERS: Act = Act {
    name: "requests→answers",
    rounds: ROUNDS,
    first: |side, round| {
        side.turns("hot", 3);
        side.turns("hotter", 3);
        side.hear();
        let locks = side.locks().clone();
        let mut first = pin!(locks.lock("hot").into_future());
        let mut second = pin!(locks.lock(format!("new-{round}")).into_future());
        let mut third = pin!(locks.lock("held").if_available().into_future());
        let last = locks.lock("hotter").into_future();
        let owned = poll(first.as_mut()).map(Result::unwrap);
        assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        let last = block_on_timeout(last, TIMEOUT).expect("it is granted").unwrap();
        // By now the ones before are answered.
        let first = if owned.is_ready() { owned } else { poll(first.as_mut()).map(Result::unwrap) };
        let second = poll(second.as_mut()).map(Result::unwrap);
        let third = poll(third.as_mut()).map(Result::unwrap);
        let is_right = first.is_ready() && second.is_ready() && matches!(third, Poll::Ready(None));
        drop((first, second, third, last));
        side.judge(is_right);
        side.hear();
    },
    second: |side, _| {
        let held = side.lock("held");
        side.tell();
        let is_right = side.hear();
        drop(held);
        side.tell();
        is_right
    },
};

fn has(locks: &[LockInfo], name: &str) -> bool {
    locks.iter().any(|lock| lock.name == name)
}

/// The first snapshot that shows the lock as held.
fn query_until_held(side: &Side, name: &str) -> LockManagerSnapshot {
    let began = Instant::now();
    loop {
        let seen = side.query();
        if has(&seen.held, name) {
            return seen;
        }
        assert!(began.elapsed() < TIMEOUT, "{name} is not held");
    }
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
