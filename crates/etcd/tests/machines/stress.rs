//! All at once, at random: whatever happens, nobody waits for ever and nobody holds beside another.

use std::{
    sync::atomic::{
        AtomicBool, AtomicI64, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use navlock_core::{Error, LockGuard, LockManager, Mode};
use navlock_etcd::EtcdOptions;

use super::{proxy::Proxy, settle, soon, state};
use crate::server::{Server, connect};

/// For how long.
const TIME: Duration = Duration::from_secs(6);

/// What a name protects.
#[derive(Default)]
struct Resource {
    /// Readers inside, or less than zero if a writer is.
    inside: AtomicI64,
    /// The largest token of a writer that was seen.
    token: AtomicU64,
    grants: AtomicU64,
}

impl Resource {
    /// Uses it, and sees that nobody else does who must not.
    fn enter(&self, guard: &LockGuard) {
        let change = if guard.mode() == Mode::Exclusive { -1_000_000 } else { 1 };
        let before = self.inside.fetch_add(change, SeqCst);
        let is_alone = if change < 0 { before == 0 } else { before >= 0 };
        assert!(is_alone || guard.is_lost(), "{before} were inside");
        if guard.mode() == Mode::Exclusive {
            let token = guard.fencing_token().get();
            let before = self.token.fetch_max(token, SeqCst);
            assert!(before < token, "{before} was granted before {token}");
        }
        thread::yield_now();
        self.inside.fetch_sub(change, SeqCst);
        self.grants.fetch_add(1, Relaxed);
    }

    /// The same where locks are stolen: who comes too late has lost, and is told.
    fn enter_fenced(&self, guard: &LockGuard) {
        let token = guard.fencing_token().get();
        let largest = match guard.mode() {
            Mode::Exclusive => self.token.fetch_max(token, SeqCst),
            Mode::Shared => self.token.load(SeqCst),
        };
        if largest > token {
            soon(guard.lost());
        }
        self.grants.fetch_add(1, Relaxed);
    }
}

fn random(state: &mut u64) -> u64 {
    // Xorshift: enough to mix, and the same in each run.
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn play(locks: &LockManager, seed: u64, resources: &[Resource; 3]) {
    let mut seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let since = Instant::now();
    while since.elapsed() < TIME {
        let nth = usize::try_from(random(&mut seed) % 3).unwrap();
        let (resource, name) = (&resources[nth], ["a", "b", "stolen"][nth]);
        let timeout = Duration::from_micros(random(&mut seed) % 6000);
        let granted = match random(&mut seed) % 8 {
            0 => kept(soon(locks.lock(name).if_available())).flatten(),
            1 => kept(soon(locks.lock(name).shared().if_available())).flatten(),
            2 => locks.lock(name).blocking_timeout(timeout).ok(),
            3 => locks.lock(name).shared().blocking_timeout(timeout).ok(),
            4 if name == "stolen" => kept(soon(locks.lock(name).steal())),
            5 | 6 => kept(soon(locks.lock(name).shared())),
            _ => kept(soon(locks.lock(name))),
        };
        if let Some(guard) = granted {
            if name == "stolen" {
                resource.enter_fenced(&guard);
            } else {
                resource.enter(&guard);
            }
        }
    }
}

/// The lock, unless it was stolen before it could be taken.
fn kept<G>(granted: Result<G, Error>) -> Option<G> {
    match granted {
        Ok(granted) => Some(granted),
        Err(Error::Lost(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn nobody_waits_for_ever_and_nobody_holds_beside_another() {
    let server = Server::start();
    let cable = Proxy::to(server.port());
    let endpoints = [cable.endpoint(), server.endpoint(), server.endpoint()];
    let machines = endpoints.map(|endpoint| connect(&EtcdOptions::new([endpoint])));
    let agents: Vec<LockManager> =
        machines.iter().flat_map(|machine| [(); 3].map(|()| machine.lock_manager("b"))).collect();
    let resources: [Resource; 3] = Default::default();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                thread::sleep(Duration::from_millis(170));
                cable.end_connections();
            }
        });
        let players: Vec<_> = agents
            .iter()
            .enumerate()
            .map(|(nth, locks)| {
                let resources = &resources;
                scope.spawn(move || play(locks, nth as u64 + 1, resources))
            })
            .collect();
        let results: Vec<_> = players.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, SeqCst);
        assert!(results.iter().all(Result::is_ok), "a player failed");
    });
    for resource in &resources {
        assert!(resource.grants.load(Relaxed) > 20, "everything was used");
    }
    agents.iter().for_each(settle);
    assert_eq!(state(&agents[0]), (vec![], vec![]));
}
