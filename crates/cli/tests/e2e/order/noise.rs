//! What a process does beside its turns.

use std::{
    fs,
    future::IntoFuture,
    pin::pin,
    task::{Context, Waker},
    thread,
};

use navlock::{BrokerReach, LockManager, blocking::block_on_timeout};
use rustix::{
    net::{getpeername, sockopt::set_socket_send_buffer_size},
    process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open},
};

use super::side::another;
use crate::worker::TIMEOUT;

/// What a process does beside its turns, as long as it lives.
#[derive(Clone, Copy)]
pub(super) enum Noise {
    None,
    /// Threads on each side take the same locks.
    Threads,
    /// Threads of the first one make more requests at once than its socket has room for.
    Flood,
}

impl Noise {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Threads => "threads",
            Self::Flood => "flood",
        }
    }

    pub(super) fn of(word: &str, is_first: bool) -> Self {
        match word {
            "threads" => Self::Threads,
            "flood" if is_first => Self::Flood,
            _ => Self::None,
        }
    }

    /// Begins the noise, on this connection, in threads that end with the process.
    pub(super) fn begin(self, reach: &BrokerReach) {
        let (threads, work): (_, fn(&LockManager, usize, usize)) = match self {
            Self::None => return,
            Self::Threads => (3, take),
            Self::Flood => {
                narrow_sockets();
                (2, flood)
            }
        };
        for number in 0..threads {
            let locks = another(reach);
            thread::spawn(move || {
                for turn in 0.. {
                    work(&locks, number, turn);
                }
            });
        }
    }
}

/// Leaves as little room as the system allows in what this process has connected.
fn narrow_sockets() {
    let us = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    for descriptor in fs::read_dir("/proc/self/fd").unwrap() {
        let number = descriptor.unwrap().file_name().to_string_lossy().parse().unwrap();
        // By number there is no safe way to a descriptor but a copy of it.
        let Ok(copy) = pidfd_getfd(&us, number, PidfdGetfdFlags::empty()) else { continue };
        if getpeername(&copy).is_ok() {
            set_socket_send_buffer_size(&copy, 1).unwrap();
        }
    }
}

/// Takes a lock that the threads of this number take in both processes.
fn take(locks: &LockManager, number: usize, turn: usize) {
    let request = locks.lock(format!("noise-{number}"));
    let request = if turn % 3 == 0 { request.shared() } else { request };
    drop(request.blocking_timeout(TIMEOUT).unwrap());
}

/// Makes requests for names that nobody has owned yet, without waiting for answers, and then waits for all.
fn flood(locks: &LockManager, number: usize, turn: usize) {
    let name = |one| format!("flood-{number}-{turn}-{one}");
    let mut requests: Vec<_> =
        (0..12).map(|one| Box::pin(locks.lock(name(one)).into_future())).collect();
    let mut context = Context::from_waker(Waker::noop());
    for request in &mut requests {
        assert!(pin!(request).poll(&mut context).is_pending());
    }
    for request in requests {
        drop(block_on_timeout(request, TIMEOUT).expect("it is granted").unwrap());
    }
}
