//! Those who wait for each other: found here, where everything is known, and told to each of them.
//!
//! A circle comes to be by a request that is made inside a lock and has to wait: whoever waits for it behind it
//! in its queue was there later. So nobody looks as long as no client says of such a request what it is inside
//! of. And it goes from one name to the next by such a request only: so nothing is looked at but names that
//! somebody waits for inside a lock.
//!
//! Where other machines share the locks, the one that closes a circle may be theirs. Each machine has said with
//! its requests inside which locks they were made, and each looks for itself, and tells its own clients: the one
//! on which the circle is closed soon after that, the others now and then for as long as somebody waits there inside
//! something. What is looked at is what etcd has, of each name at one revision, also of our own clients: a
//! grant that we have not heard of is none that is waited for. A lock or request is the same in two pictures
//! only if it was there all the time between them. So whatever is in both was there in one moment.
//!
//! Names that nobody but others waits for inside a lock can be part of such a circle as well. They are found from
//! its end: who waits for a lock that our request is inside of is in the queue of that lock's name, and says of which
//! names the locks are that it is inside of itself. So these are looked at as well, and those to which they lead.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use foldhash::quality::RandomState;
use navlock_core::{
    ClientId, ResourceName,
    look::{LockId, Member, Overview, Watcher},
};
use navlock_wire::LookEvent;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    circles::{Circles, InCircle, Names, Nested},
    elsewhere::Elsewhere,
    shared_client::lock,
    state::Daemon,
};
use crate::{LOGS, convert};

/// How long a circle lasts before it is told, and how often it is looked at most.
const PATIENCE: Duration = Duration::from_secs(1);

/// While somebody waits inside something, how often it is looked at least whether others have closed a circle.
const LONGEST: Duration = Duration::from_secs(8);

/// Whatever it takes to look, there is at least so many times as long for others before it is done again.
const SHARE: u32 = 10;

/// With so many locks and requests to be looked through, another thread does that.
const MANY: usize = 2_000;

/// Of a longer circle so many requests are told, from the one on that came last: the text is the same.
const MOST_TOLD: usize = 32;

/// So many circles are told to the log one by one.
const MOST_LOGGED: usize = 8;

/// What there is of the names that somebody waits for inside a lock.
#[derive(Default)]
struct Seen {
    events: Vec<LookEvent>,
    /// Where others share the locks, what etcd has of these names.
    elsewhere: Option<Elsewhere>,
}

impl Daemon {
    /// Tells those who wait for each other, for as long as the daemon runs.
    pub(super) async fn watch_deadlocks(self: Arc<Self>) {
        let mut watcher = watcher();
        loop {
            self.lookers().somebody_is_nested().await;
            if self.user_agent().is_leased() {
                // There each request waits for an answer, and has it by then, if it does not wait for others.
                sleep(PATIENCE).await;
            }
            let mut pause = PATIENCE;
            loop {
                let began = Instant::now();
                self.tell_insides();
                // Who was not heard of matters once there is something to be told.
                let Some(seen) = self.look_at_nested(watcher.next().is_some()).await else {
                    // With a part of the picture, a circle that was told would be seen to end, and be told again.
                    sleep(LONGEST).await;
                    continue;
                };
                let is_nested = !seen.events.is_empty();
                let circles;
                (watcher, circles) = search(watcher, seen, Instant::now()).await;
                self.tell_circles(&circles);
                sleep(PATIENCE.max(began.elapsed() * SHARE)).await;
                if watcher.next().is_some() {
                    pause = PATIENCE;
                    continue;
                }
                if !self.user_agent().is_leased() || !is_nested {
                    break;
                }
                let more = self.lookers().somebody_is_nested();
                let is_more = timeout(pause.saturating_sub(PATIENCE), more).await;
                pause = if is_more.is_ok() { PATIENCE } else { (2 * pause).min(LONGEST) };
            }
        }
    }

    /// Tells the machines that share the locks inside which locks our clients wait. What is not held yet, as after
    /// another broker, is told the next time.
    fn tell_insides(&self) {
        if !self.user_agent().is_leased() {
            return;
        }
        let mut untold = Vec::new();
        for client in self.all_clients() {
            let theirs = lock(&client).requests_mut().untold_insides();
            if !theirs.is_empty() {
                untold.push((client, theirs));
            }
        }
        // One client is locked at a time, and looked through once, however much there is to be told.
        let wanted = untold.iter().flat_map(|(_, theirs)| theirs).map(|(_, inside)| *inside);
        let wanted: HashSet<LockId, RandomState> = wanted.collect();
        let mut called = HashMap::default();
        for whose in self.directory().find(wanted.iter().map(|inside| inside.client_id)) {
            lock(&whose).requests_mut().called(&wanted, &mut called);
        }
        for (client, theirs) in untold {
            let mut client = lock(&client);
            for (request, inside) in theirs {
                if let Some(called) = called.get(&inside) {
                    client.requests_mut().tell_inside(request, inside, *called);
                }
            }
        }
    }

    /// What is waited for here inside a lock.
    fn nested(&self) -> Nested {
        let mut nested = Nested::default();
        for client in self.all_clients() {
            lock(&client).nested(&mut nested);
        }
        nested
    }

    /// The names of these locks.
    fn names_of(&self, locks: &HashSet<LockId, RandomState>) -> Names {
        let mut names = Names::default();
        for whose in self.directory().find(locks.iter().map(|lock| lock.client_id)) {
            lock(&whose).requests_mut().names_of(locks, &mut names);
        }
        names
    }

    /// What there is of the names that somebody waits for inside a lock, here or elsewhere; nothing if nobody
    /// does here. `None` if it could not be seen.
    async fn look_at_nested(&self, with_silence: bool) -> Option<Seen> {
        let nested = self.nested();
        if nested.is_empty() {
            return Some(Seen::default());
        }
        let mut elsewhere = None;
        if self.user_agent().is_leased() {
            let around = self.names_of(&nested.around);
            elsewhere = Some(self.look_elsewhere_at(&nested.names, &around, with_silence).await?);
        }
        // Nothing is waited for from here on. What others have begun to wait for since is seen the next time.
        let (mut names, ours) = (nested.names, self.agents());
        if let Some(elsewhere) = &elsewhere {
            elsewhere.nested(&ours, &mut names);
        }
        self.look_anew();
        let mut events = Vec::new();
        for client in self.all_clients() {
            lock(&client).look_at(|bucket, name| names.has(bucket, name), &mut events);
        }
        // In the order of the queues: clients are in none.
        let is_nested = |bucket: &str, name: &ResourceName| names.has(bucket, name);
        let mut nothing = Elsewhere::default();
        events = elsewhere.as_mut().unwrap_or(&mut nothing).add_some_to(events, &ours, is_nested);
        Some(Seen { events, elsewhere })
    }

    fn tell_circles(&self, circles: &Circles) {
        if circles.requests.is_empty() {
            return;
        }
        for members in circles.lengths.iter().take(MOST_LOGGED) {
            tracing::warn!(target: LOGS, members, "some wait for each other, and for ever");
        }
        if let Some(more @ 1..) = circles.lengths.len().checked_sub(MOST_LOGGED) {
            tracing::warn!(target: LOGS, more, "others do as well");
        }
        let whose: HashSet<ClientId> = circles.requests.keys().map(|id| id.client_id).collect();
        for client in self.directory().find(whose) {
            lock(&client).tell_circles(circles);
        }
    }
}

/// Finds those circles that are to be told now.
fn find(watcher: &mut Watcher, seen: Seen, now: Instant) -> Circles {
    let (mut overview, mut bucket) = (Overview::default(), Arc::default());
    for event in convert::events(seen.events, &mut bucket) {
        overview.apply(&event);
    }
    if let Some(elsewhere) = seen.elsewhere {
        elsewhere.settle(&mut overview);
    }
    let is_unheard = |member: &Member| {
        let agent = overview.agents.get(&member.entry.id.client_id);
        agent.is_some_and(|agent| agent.silence.is_some())
    };
    let mut circles = Circles::default();
    for circle in watcher.look(&overview, now) {
        let requests = circle.members.iter().filter(|member| !member.is_held);
        // One that has to do with others alone is told by their own machines.
        if requests.clone().all(|member| member.entry.id.is_made_up()) {
            continue;
        }
        // A machine that has died lets go of what it has.
        if circle.members.iter().any(is_unheard) {
            watcher.put_off(circle.closed_by());
            continue;
        }
        let told: Arc<str> = circle.to_string().into();
        circles.lengths.push(requests.clone().count());
        // Where etcd has not said of all of them which came last, their machines may not agree on it.
        let is_ordered = |member: &Member| member.entry.order > 0;
        let is_known = requests.clone().all(is_ordered) || !requests.clone().any(is_ordered);
        // The first of them is the one that came last.
        for member in requests.take(MOST_TOLD) {
            let is_last = is_known && member.entry.id == circle.closed_by();
            let in_circle = InCircle { told: Arc::clone(&told), is_last };
            let known = circles.requests.entry(member.entry.id).or_insert(in_circle.clone());
            // It may be in several.
            if is_last {
                *known = in_circle;
            }
        }
    }
    circles
}

/// Tells what lasts.
fn watcher() -> Watcher {
    Watcher::new(PATIENCE).only_certain()
}

/// Looks for circles in what there is: on a thread of its own if that is much, and there is one to be had, so
/// that nobody waits for it.
async fn search(mut watcher: Watcher, mut seen: Seen, now: Instant) -> (Watcher, Circles) {
    if seen.events.len() >= MANY {
        let (done, is_done) = oneshot::channel();
        let work = Arc::new(Mutex::new(Some((watcher, seen))));
        let theirs = Arc::clone(&work);
        let spawned = thread::Builder::new().name("navlock-circles".to_owned()).spawn(move || {
            if let Some((mut watcher, seen)) = take(&theirs) {
                let circles = find(&mut watcher, seen, now);
                // The daemon may have ended.
                let _ = done.send((watcher, circles));
            }
        });
        if spawned.is_ok() {
            return is_done.await.unwrap_or_else(|_| (self::watcher(), Circles::default()));
        }
        (watcher, seen) = take(&work).unwrap_or_else(|| (self::watcher(), Seen::default()));
    }
    let circles = find(&mut watcher, seen, now);
    (watcher, circles)
}

fn take<T>(work: &Mutex<Option<T>>) -> Option<T> {
    work.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[cfg(test)]
mod tests;
