//! What a looker sees.

mod brokers;

use std::{
    collections::BTreeSet,
    future::{Future, IntoFuture},
    pin::{Pin, pin},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock_broker::{Look, LookOptions, News, Place, Reason};
use navlock_core::{
    AgentInfo, LockFuture, LockManager, Lost, Mode, UserAgent,
    look::{Change, ClientState, Entry, Event, LockName, Looker, Overview, Queue},
};
use navlock_platform::socket::Listener;

use crate::daemon::{Daemon, LONG, eventually, queue, soon};

/// Begins a look, and waits for its first overview.
fn begin(daemon: &Daemon, options: LookOptions) -> Look {
    let mut look = Look::new(daemon.place(), options);
    assert_eq!(look.next(Some(LONG)).unwrap(), Some(News::Anew { missed: 0 }));
    look
}

fn db() -> LockName {
    LockName::new("app", "db".try_into().unwrap())
}

/// Looks until this is so, and returns the events of the meantime.
fn until(look: &mut Look, is_so: impl Fn(&Overview) -> bool) -> Vec<Event> {
    let (deadline, mut all) = (Instant::now() + LONG, Vec::new());
    while !is_so(look.overview()) {
        let left = deadline.saturating_duration_since(Instant::now());
        match look.next(Some(left)).unwrap() {
            Some(News::Events(events)) => all.extend(events),
            Some(_) => {}
            None => panic!("it never was; what has happened: {all:#?}, {:#?}", look.overview()),
        }
    }
    all
}

/// Sets the flag when it is dropped, also by a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn words(events: &[Event]) -> Vec<&'static str> {
    events.iter().filter(|event| event.change.name().is_some()).map(|e| e.change.word()).collect()
}

fn is_empty(overview: &Overview) -> bool {
    overview.queues.is_empty()
}

#[test]
fn a_looker_sees_the_present_locks_and_then_the_events_in_order() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.locks(), daemon.locks());
    let held = soon(a.lock("db")).unwrap();
    let mut look = begin(&daemon, LookOptions::default());
    let Queue { held: holders, pending, .. } = &look.overview().queues[&db()];
    assert_eq!((holders.len(), pending.len()), (1, 0));
    assert_eq!(holders[0].id.client_id, a.client_id());
    assert_eq!(holders[0].token, Some(held.fencing_token()));
    assert_eq!(look.overview().clients.len(), 2);

    let mut waiting = pin!(b.lock("db").into_future());
    queue(&b, "db", waiting.as_mut());
    drop(held);
    let next = soon(waiting).unwrap();
    drop(next);
    let seen = until(&mut look, is_empty);
    assert_eq!(words(&seen), ["requested", "released", "granted", "released"]);
    let whose: Vec<_> = seen.iter().filter_map(|event| event.change.agent()).collect();
    let (a, b) = (a.client_id(), b.client_id());
    assert_eq!(whose, [b, a, b, b]);
}

#[test]
fn thefts_aborts_and_what_is_not_to_be_had_are_seen() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.locks(), daemon.locks());
    let mut look = begin(&daemon, LookOptions::default());
    let held = soon(a.lock("db")).unwrap();
    assert!(soon(b.lock("db").if_available()).unwrap().is_none());
    {
        let mut given_up = pin!(b.lock("db").into_future());
        queue(&b, "db", given_up.as_mut());
    }
    let thief = soon(b.lock("db").steal()).unwrap();
    soon(held.lost());
    let last = soon(a.lock("last")).unwrap();
    drop((held, thief));
    // The two agents have a connection each, so the daemon may hear first of what was done last.
    let last_is_there = |seen: &Overview| seen.queues.keys().any(|name| name.name == "last");
    let mut seen = until(&mut look, last_is_there);
    drop(last);
    seen.extend(until(&mut look, is_empty));
    seen.retain(|event| event.change.name() == Some(&db()));
    let mut seen_words = words(&seen);
    assert_eq!(seen_words[..4], ["granted", "unavailable", "requested", "aborted"]);
    seen_words[4..].sort_unstable();
    assert_eq!(seen_words[4..], ["granted", "released", "stolen"]);
    let stolen = seen.iter().find_map(|event| match event.change {
        Change::Lost { how, by, id, .. } => Some((how, by, id.client_id)),
        _ => None,
    });
    assert_eq!(stolen, Some((Lost::Stolen, Some(b.client_id()), a.client_id())));
}

#[test]
fn an_agent_is_seen_to_come_and_to_go_with_its_locks() {
    let daemon = Daemon::start();
    let mut look = begin(&daemon, LookOptions::default());
    let client = daemon.client();
    let locks = client.lock_manager("app");
    let mut info = AgentInfo::default();
    info.why = "to see".to_owned();
    info.meta = vec![("url".to_owned(), "http://localhost:3000".to_owned())];
    locks.describe(&info);
    let held = soon(locks.lock("db")).unwrap();
    let agent = locks.client_id();
    let is_described = |seen: &Overview| {
        let seen = seen.info(agent);
        seen.is_some_and(|seen| (&*seen.why, &seen.meta) == (&*info.why, &info.meta))
    };
    until(&mut look, |seen| is_described(seen) && !is_empty(seen));
    let [client_seen] = &look.overview().clients.values().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((client_seen.pid, client_seen.state), (std::process::id(), ClientState::Connected));
    locks.terminate();
    until(&mut look, is_empty);
    drop((client, locks, held));
    until(&mut look, |seen| seen.agents.is_empty() && seen.clients.is_empty());
}

#[test]
fn the_metadata_of_an_agent_is_told_to_clients_that_ask() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.locks(), daemon.locks());
    let mut info = AgentInfo::default();
    info.meta = vec![("url".to_owned(), "http://localhost:3000".to_owned())];
    a.describe(&info);
    let _held = soon(a.lock("db")).unwrap();
    let inspection = soon(b.inspect(None)).unwrap();
    assert_eq!(inspection.held[0].agent.as_ref().unwrap().meta, info.meta);
    let position = soon(b.position("db".try_into().unwrap())).unwrap();
    assert_eq!(position.holder.unwrap().agent.unwrap().meta, info.meta);
}

#[test]
fn one_name_or_bucket_is_seen_without_the_others() {
    let daemon = Daemon::start();
    let (app, other) = (daemon.locks(), daemon.client().lock_manager("other"));
    let names = |look: &Look| look.overview().queues.keys().cloned().collect::<Vec<_>>();
    let mut all = begin(&daemon, LookOptions::default());
    let mut bucket = begin(&daemon, LookOptions::default().bucket("app"));
    let mut name = begin(&daemon, LookOptions::default().name("db".try_into().unwrap()));
    let locks = [(&app, "db"), (&app, "x"), (&other, "db"), (&other, "x")];
    let held = locks.map(|(locks, name)| soon(locks.lock(name)).unwrap());
    until(&mut all, |seen| seen.queues.len() == 4);
    until(&mut bucket, |seen| seen.queues.len() == 2);
    until(&mut name, |seen| seen.queues.len() == 2);
    assert!(names(&bucket).iter().all(|name| &*name.bucket == "app"));
    assert!(names(&name).iter().all(|name| name.name == "db"));
    drop(held);
    for look in [&mut all, &mut bucket, &mut name] {
        until(look, is_empty);
    }
}

#[test]
fn a_late_looker_sees_the_same_as_a_looker_from_the_start() {
    const AGENTS: usize = 4;
    let daemon = Daemon::start();
    let clients: Vec<LockManager> = (0..AGENTS).map(|_| daemon.locks()).collect();
    let mut all_the_time = begin(&daemon, LookOptions::default());
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(random >> 33).unwrap() % below
    };
    let mut waiting: Vec<Pin<Box<LockFuture<'_, _, _>>>> = Vec::new();
    let mut held = Vec::new();
    for round in 0..300 {
        match next(4) {
            0 | 1 => {
                let name = ["a", "b", "c"][next(3)];
                let mut request = clients[next(AGENTS)].lock(name);
                if next(3) == 0 {
                    request = request.shared();
                } else if next(8) == 0 {
                    request = request.steal();
                }
                waiting.push(Box::pin(request.into_future()));
            }
            2 if !held.is_empty() => drop(held.swap_remove(next(held.len()))),
            _ if !waiting.is_empty() => drop(waiting.swap_remove(next(waiting.len()))),
            _ => {}
        }
        let mut context = Context::from_waker(Waker::noop());
        let mut still = Vec::new();
        for mut request in waiting {
            match Future::poll(request.as_mut(), &mut context) {
                Poll::Ready(lock) => held.extend(lock.ok()),
                Poll::Pending => still.push(request),
            }
        }
        waiting = still;
        if round % 50 == 49 {
            // When this is answered, the daemon has all requests that were made before it.
            for locks in &clients {
                soon(locks.query()).unwrap();
            }
            let now = Look::once(daemon.place(), LookOptions::default()).unwrap();
            let shown = |overview: &Overview| -> BTreeSet<(LockName, &str, Vec<String>)> {
                let entries = |entries: &[Entry]| {
                    entries.iter().map(|e| format!("{} {} {:?}", e.id, e.mode, e.token)).collect()
                };
                let of = |(name, queue): (&LockName, &Queue)| {
                    let mut held: Vec<String> = entries(&queue.held);
                    held.sort();
                    [
                        (name.clone(), "held", held),
                        (name.clone(), "pending", entries(&queue.pending)),
                    ]
                };
                overview.queues.iter().flat_map(of).collect()
            };
            until(&mut all_the_time, |seen| shown(seen) == shown(&now));
        }
    }
    drop((waiting, held));
    until(&mut all_the_time, is_empty);
}

#[test]
fn a_new_looker_sees_each_of_thousands_of_names_while_other_names_come_and_go() {
    const HELD: usize = 3_000;
    let daemon = Daemon::start();
    let (holder, busy) = (daemon.locks(), daemon.locks());
    let take = |n: usize| soon(holder.lock(format!("held {n}"))).unwrap();
    let mut held: Vec<_> = (0..HELD).map(take).collect();
    let is_over = AtomicBool::new(false);
    let looks = thread::scope(|scope| {
        let at_end = End(&is_over);
        scope.spawn(|| {
            for n in (0..100).cycle().take_while(|_| !is_over.load(Relaxed)) {
                drop(soon(busy.lock(format!("busy {n}"))).unwrap());
            }
        });
        let mut looks = Vec::new();
        for _ in 0..5 {
            looks.push(begin(&daemon, LookOptions::default()));
            let shown = &looks.last().unwrap().overview().queues;
            let all = shown.keys().filter(|name| name.name.as_str().unwrap().starts_with("held"));
            assert_eq!(all.count(), held.len());
            held.truncate(held.len() - 100);
            // When this is answered, the locks are released.
            soon(holder.query()).unwrap();
        }
        drop(at_end);
        looks
    });
    let all: BTreeSet<_> = (0..held.len()).map(|n| format!("held {n}")).collect();
    let names = |seen: &Overview| -> BTreeSet<String> {
        seen.queues.keys().map(|name| name.name.as_str().unwrap().to_owned()).collect()
    };
    for mut look in looks {
        until(&mut look, |seen| names(seen) == all);
        assert!(look.overview().queues.values().all(|queue| queue.held.len() == 1));
    }
}

#[test]
fn a_looker_that_does_not_read_is_told_how_much_it_missed_and_the_present_state() {
    let daemon = Daemon::start();
    let locks = daemon.locks();
    let mut look = begin(&daemon, LookOptions::default());
    // More events than the socket takes and the daemon keeps for one looker.
    for number in 0..40_000 {
        let name = format!("{number}-{}", "x".repeat(100));
        drop(soon(locks.lock(name)).unwrap());
    }
    let mut missed = 0;
    while missed == 0 {
        match look.next(Some(LONG)).unwrap() {
            Some(News::Anew { missed: now }) => missed = now,
            Some(News::Events(_)) => {}
            other => panic!("nothing was missed: {other:?}"),
        }
    }
    until(&mut look, is_empty);
}

#[test]
fn a_lock_that_is_granted_inside_another_one_is_seen_granted_once() {
    let daemon = Daemon::start();
    let locks = daemon.locks();
    let mut look = begin(&daemon, LookOptions::default());
    let outer = soon(locks.lock("outer")).unwrap();
    let inner = soon(locks.lock("inner").inside(&outer)).unwrap();
    let mut seen = until(&mut look, |seen| seen.queues.len() == 2);
    // When this is answered, the daemon has read what was sent after the request.
    soon(locks.query()).unwrap();
    drop(inner);
    drop(outer);
    seen.extend(until(&mut look, is_empty));
    assert_eq!(words(&seen), ["granted", "granted", "released", "released"]);
}

#[test]
fn a_user_agent_is_looked_at_wherever_its_locks_are_kept() {
    let daemon = Daemon::start();
    for user_agent in [daemon.client(), UserAgent::new()] {
        let mut looker = user_agent.look(LookOptions::default().bucket("app")).unwrap();
        assert_eq!(looker.next(Some(LONG)), Ok(Some(News::Anew { missed: 0 })));
        let holders = |looker: &Looker| {
            looker.overview().queues.get(&db()).map_or(0, |queue| queue.held.len())
        };
        let held = soon(user_agent.lock_manager("app").lock("db")).unwrap();
        while holders(&looker) == 0 {
            assert!(matches!(looker.next(Some(LONG)), Ok(Some(News::Events(_)))));
        }
        assert_eq!(looker.overview().queues[&db()].held[0].id, held.id());
        drop(held);
        while holders(&looker) > 0 {
            assert!(matches!(looker.next(Some(LONG)), Ok(Some(News::Events(_)))));
        }
    }
}
