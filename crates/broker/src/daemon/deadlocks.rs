//! Deadlocks: the daemon knows all locks and requests, so it finds the cycles of requests that wait for each
//! other, and tells each client whose request is in one.
//!
//! Every cycle contains a waiting request that was made inside a lock. Without such a request, each
//! step of a cycle would lead from a request to a lock of the same name, or to an older request of
//! the same name, and such steps never lead back. So the daemon does not look for cycles before a
//! client has said of a waiting request which locks it is inside of. Only such a request leads from
//! one name to another. So the daemon looks only at the names for which such requests wait.
//!
//! Where machines share the locks, another machine's request may close a cycle. Each machine says
//! with its requests inside which locks they were made. Each machine looks for cycles by itself and
//! tells its own clients: the machine on which the cycle was closed finds it soon. The others look
//! now and then, as long as one of their own requests waits inside a lock. All of them search what
//! etcd has: they believe etcd also about the locks and requests of their own clients. So they see
//! each name as it was at one revision, and a request that etcd has granted is not mistaken for one that
//! waits, even if its machine has not heard of the grant yet. A cycle is told only if two pictures,
//! taken one after the other, both have it. What is in both pictures was there all the time between
//! them, so all members of the cycle were there at the same moment.
//!
//! A cycle may also lead through names for which only requests of other machines wait inside a lock. The
//! daemon finds these names backwards. A request that waits for a lock of ours is in the queue of that lock's
//! name. The request itself tells the names of the locks inside which it was made. So the daemon looks at
//! these names as well, and at the names to which their queues lead in the same way.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use foldhash::quality::RandomState;
use navlock_core::{
    ClientId, ResourceName,
    look::{LockId, Member, Overview, Watcher},
};
use navlock_wire::LookEvent;
use tokio::sync::oneshot;

use super::{
    cycles::{Cycles, InCycle, Names, Nested},
    elsewhere::Elsewhere,
    guests::veil_change,
    shared_client::lock,
    state::Daemon,
    timers::{sleep, timeout},
};
use crate::{LOGS, convert};

/// How long a cycle has to last before clients are told of it.
const LASTING: Duration = Duration::from_secs(1);

/// The shortest time between two searches.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// The longest time between two searches for cycles that other machines have closed, while a request waits
/// inside a lock.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The daemon pauses for at least this many times as long as the last search has taken.
const SHARE: u32 = 10;

/// With at least this many locks and requests, another thread searches.
const MANY: usize = 2_000;

/// At most this many requests of a cycle are told of it, beginning with the one that gives way.
/// All get the same text.
const MOST_TOLD: usize = 32;

/// At most this many cycles have a line of their own in the log.
const MOST_LOGGED: usize = 8;

/// What can be part of a cycle: the locks and requests of the names for which a request waits inside a lock.
#[derive(Default)]
struct Candidates {
    events: Vec<LookEvent>,
    /// The agents of this machine.
    ours: HashSet<ClientId>,
    /// What etcd has of these names, where other machines share the locks.
    elsewhere: Option<Elsewhere>,
}

impl Daemon {
    /// Looks for deadlocks and tells the clients concerned, for as long as the daemon runs.
    pub(super) async fn watch_deadlocks(self: Arc<Self>) {
        let mut watcher = watcher();
        loop {
            self.lookers.nested.notified().await;
            if self.user_agent.is_leased() {
                // On etcd each request waits for an answer. After this pause it has the answer, unless it
                // waits for other requests.
                sleep(SHORTEST_PAUSE).await;
            }
            let mut pause = SHORTEST_PAUSE;
            loop {
                let began = Instant::now();
                self.tell_insides();
                // Which machines are silent matters only if there is a cycle that may be told.
                let Some(seen) = self.look_at_nested(watcher.next().is_some()).await else {
                    // In an incomplete picture, a cycle that was told would seem to have ended, and would
                    // later be told again.
                    sleep(LONGEST_PAUSE).await;
                    continue;
                };
                let is_nested = !seen.events.is_empty();
                let cycles;
                (watcher, cycles) = search(watcher, seen, Instant::now()).await;
                self.tell_cycles(&cycles);
                sleep(SHORTEST_PAUSE.max(began.elapsed() * SHARE)).await;
                if watcher.next().is_some() {
                    pause = SHORTEST_PAUSE;
                    continue;
                }
                if !self.user_agent.is_leased() || !is_nested {
                    break;
                }
                let more = self.lookers.nested.notified();
                let is_more = timeout(pause.saturating_sub(SHORTEST_PAUSE), more).await;
                pause =
                    if is_more.is_some() { SHORTEST_PAUSE } else { (2 * pause).min(LONGEST_PAUSE) };
            }
        }
    }

    /// Tells the machines that share the locks about the waiting requests of our clients: inside which
    /// locks each was made.
    fn tell_insides(&self) {
        if self.user_agent.is_leased() {
            self.all_clients().iter().for_each(|client| lock(client).requests.tell_insides());
        }
    }

    /// The names for which our clients wait inside a lock, and these locks.
    fn nested(&self) -> Nested {
        let mut nested = Nested::default();
        for client in self.all_clients() {
            lock(&client).requests.nested(&mut nested);
        }
        nested
    }

    /// The names of these locks.
    fn names_of(&self, locks: &HashSet<LockId, RandomState>) -> Names {
        let mut names = Names::default();
        for whose in self.directory.find(locks.iter().map(|lock| lock.client_id)) {
            lock(&whose).requests.names_of(locks, &mut names);
        }
        names
    }

    /// The locks and requests of the names for which a request waits inside a lock, here or on another
    /// machine. Empty if no request of this machine waits inside a lock. `None` if the names could not
    /// be looked at.
    async fn look_at_nested(&self, with_silence: bool) -> Option<Candidates> {
        let nested = self.nested();
        if nested.is_empty() {
            return Some(Candidates::default());
        }
        let mut elsewhere = None;
        if self.user_agent.is_leased() {
            let around = self.names_of(&nested.around);
            elsewhere = Some(self.look_elsewhere_at(&nested.names, &around, with_silence).await?);
        }
        // There is no `await` from here on. Requests that came in the meantime are seen the next time.
        let (mut names, ours) = (nested.names, self.directory.agents());
        if let Some(elsewhere) = &elsewhere {
            elsewhere.nested(&ours, &mut names);
        }
        self.look_anew();
        let mut events = Vec::new();
        for client in self.all_clients() {
            lock(&client).look_at(|bucket, name| names.has(bucket, name), &mut events);
        }
        // The events of the clients are in no order. They are put into the order of the queues
        // here.
        if self.guests().is_some() {
            // All members of a cycle are told of it, whosever they are.
            for event in &mut events {
                veil_change(&mut event.change);
            }
        }
        let is_nested = |bucket: &str, name: &ResourceName| names.has(bucket, name);
        let mut nothing = Elsewhere::default();
        events = elsewhere.as_mut().unwrap_or(&mut nothing).add_some_to(events, &ours, is_nested);
        Some(Candidates { events, ours, elsewhere })
    }

    fn tell_cycles(&self, cycles: &Cycles) {
        if cycles.requests.is_empty() {
            return;
        }
        for members in cycles.lengths.iter().take(MOST_LOGGED) {
            tracing::warn!(target: LOGS, members, "some wait for each other, and for ever");
        }
        if let Some(more @ 1..) = cycles.lengths.len().checked_sub(MOST_LOGGED) {
            tracing::warn!(target: LOGS, more, "others do as well");
        }
        let whose: HashSet<ClientId> = cycles.requests.keys().map(|id| id.client_id).collect();
        for client in self.directory.find(whose) {
            lock(&client).requests.tell_cycles(cycles);
        }
    }
}

/// Finds the cycles that are to be told now.
fn find(watcher: &mut Watcher, seen: Candidates, now: Instant) -> Cycles {
    let mut overview = Overview::default();
    for event in convert::events(seen.events) {
        overview.apply(&event);
    }
    if let Some(elsewhere) = &seen.elsewhere {
        elsewhere.settle(&mut overview);
    }
    let is_unheard = |member: &Member| {
        let agent = overview.agents.get(&member.entry.id.client_id);
        agent.is_some_and(|agent| agent.silence.is_some())
    };
    let mut cycles = Cycles::default();
    for cycle in watcher.look(&overview, now) {
        let requests = cycle.members.iter().filter(|member| !member.is_held);
        // If all requests belong to other machines, those machines tell their clients of the cycle.
        if !requests.clone().any(|member| seen.ours.contains(&member.entry.id.client_id)) {
            continue;
        }
        // A machine that is silent may be dead. Then its locks end with its lease, and so does the
        // cycle.
        if cycle.members.iter().any(is_unheard) {
            watcher.put_off(cycle.gives_way());
            continue;
        }
        let told: Arc<str> = cycle.to_string().into();
        cycles.lengths.push(requests.clone().count());
        // If etcd has told the order of only some of the requests, the machines may not agree which
        // request was made last.
        let is_ordered = |member: &Member| member.entry.order > 0;
        let is_known = requests.clone().all(is_ordered) || !requests.clone().any(is_ordered);
        // The first of these requests is the one that gives way.
        for member in requests.take(MOST_TOLD) {
            let gives_way = is_known && member.entry.id == cycle.gives_way();
            let in_cycle = InCycle { told: Arc::clone(&told), gives_way };
            let known = cycles.requests.entry(member.entry.id).or_insert(in_cycle.clone());
            // The request may be in several cycles. It is told of the one in which it gives way.
            if gives_way {
                *known = in_cycle;
            }
        }
    }
    cycles
}

/// A watcher for cycles that last and are certain.
fn watcher() -> Watcher {
    Watcher::new(LASTING).only_certain()
}

/// Searches for cycles: on a thread of its own if there is much to search and a thread can be had, so that
/// nobody waits for the search.
async fn search(mut watcher: Watcher, mut seen: Candidates, now: Instant) -> (Watcher, Cycles) {
    if seen.events.len() >= MANY {
        let (done, is_done) = oneshot::channel();
        let work = Arc::new(Mutex::new(Some((watcher, seen))));
        let theirs = Arc::clone(&work);
        let spawned = thread::Builder::new().name("navlock-cycles".to_owned()).spawn(move || {
            let taken = lock(&theirs).take();
            if let Some((mut watcher, seen)) = taken {
                let cycles = find(&mut watcher, seen, now);
                // Nobody receives this if the daemon has ended.
                let _ = done.send((watcher, cycles));
            }
        });
        if spawned.is_ok() {
            return is_done.await.unwrap_or_else(|_| (self::watcher(), Cycles::default()));
        }
        let taken = lock(&work).take();
        (watcher, seen) = taken.unwrap_or_else(|| (self::watcher(), Candidates::default()));
    }
    let cycles = find(&mut watcher, seen, now);
    (watcher, cycles)
}

#[cfg(test)]
mod tests;
