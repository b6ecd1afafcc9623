//! What a looker sees of locks that this process keeps.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

mod fold;
mod histories;
mod threads;
mod waits;
mod whys;

use std::{
    future::{Future, IntoFuture},
    pin::{Pin, pin},
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{
    AgentInfo, Error, Lost, Mode, ResourceName, UserAgent,
    blocking::block_on,
    host::MemoryReach,
    look::{Change, Event, LookOptions, Looker, News, Overview},
};

use self::fold::name;

/// A deadline: news that take longer do not come.
const LONG: Duration = Duration::from_secs(60);

/// A look that has shown its first picture.
fn begin(user_agent: &UserAgent, options: LookOptions) -> Looker {
    let mut looker = user_agent.look(options).unwrap();
    assert_eq!(looker.next(Some(LONG)), Ok(Some(News::Anew { missed: 0 })));
    looker
}

fn begin_all(user_agent: &UserAgent) -> Looker {
    begin(user_agent, LookOptions::default())
}

/// All events until now that the looker has not reported yet.
fn take_events(looker: &mut Looker) -> Vec<Event> {
    let mut all = Vec::new();
    while let Some(news) = looker.next(Some(Duration::ZERO)).unwrap() {
        match news {
            News::Events(events) => all.extend(events),
            other => panic!("{other:?}"),
        }
    }
    all
}

/// The events of locks and requests, as words.
fn words(events: &[Event]) -> Vec<&'static str> {
    let events = events.iter().filter(|event| event.change.name().is_some());
    events.map(|event| event.change.word()).collect()
}

/// Whether the future is ready.
fn poll(future: Pin<&mut impl Future>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn names(overview: &Overview) -> Vec<String> {
    overview.queues.keys().map(|name| format!("{}/{}", name.bucket, name.name)).collect()
}

#[test]
fn a_looker_sees_the_present_locks_and_then_the_events_in_order() {
    let user_agent = UserAgent::new();
    let (a, b) = (user_agent.lock_manager("app"), user_agent.lock_manager("app"));
    let held = a.lock("db").blocking().unwrap();
    let mut looker = begin_all(&user_agent);
    let queue = &looker.overview().queues[&name("app", "db")];
    assert_eq!((queue.held.len(), queue.pending.len()), (1, 0));
    assert_eq!(queue.held[0].id, held.id());
    assert_eq!(queue.held[0].token, Some(held.fencing_token()));
    assert_eq!(looker.overview().agents.len(), 2);

    let mut waiting = pin!(b.lock("db").into_future());
    assert!(!poll(waiting.as_mut()));
    drop(held);
    let next = block_on(waiting).unwrap();
    let id = next.id();
    drop(next);
    let seen = take_events(&mut looker);
    assert_eq!(words(&seen), ["requested", "released", "granted", "released"]);
    let whose: Vec<_> = seen.iter().filter_map(|event| event.change.agent()).collect();
    let (a, b) = (a.client_id(), b.client_id());
    assert_eq!(whose, [b, a, b, b]);
    assert!(matches!(&seen[2].change, Change::Granted { entry, .. } if entry.id == id));
    assert!(looker.overview().queues.is_empty());
}

#[test]
fn thefts_aborts_and_what_is_not_to_be_had_are_seen() {
    let user_agent = UserAgent::new();
    let (a, b) = (user_agent.lock_manager("app"), user_agent.lock_manager("app"));
    let mut looker = begin_all(&user_agent);
    let readers = [(); 2].map(|()| a.lock("db").shared().blocking().unwrap());
    assert!(b.lock("db").if_available().blocking().unwrap().is_none());
    assert!(!poll(pin!(b.lock("db").into_future())));
    let thief = b.lock("db").steal().blocking().unwrap();
    let seen = take_events(&mut looker);
    let expected = [
        "granted",
        "granted",
        "unavailable",
        "requested",
        "aborted",
        "stolen",
        "stolen",
        "granted",
    ];
    assert_eq!(words(&seen), expected);
    for (event, reader) in seen[5..7].iter().zip(&readers) {
        let Change::Lost { id, how, by, .. } = event.change else { panic!("{event:?}") };
        assert_eq!((id, how, by), (reader.id(), Lost::Stolen, Some(b.client_id())));
    }
    // The victims have nothing to release.
    drop((readers, thief));
    assert_eq!(words(&take_events(&mut looker)), ["released"]);
}

#[test]
fn agents_are_seen_with_what_they_say_of_themselves_and_with_all_that_ends_with_them() {
    let user_agent = UserAgent::new();
    let early = user_agent.lock_manager("app");
    let mut info = AgentInfo::default();
    info.why = "nightly backup".to_owned();
    early.describe(&info);
    let mut looker = begin_all(&user_agent);
    assert_eq!(**looker.overview().info(early.client_id()).unwrap(), info);

    let locks = user_agent.lock_manager("app");
    locks.describe(&info);
    let id = locks.client_id();
    take_events(&mut looker);
    assert_eq!(**looker.overview().info(id).unwrap(), info);
    assert_eq!(looker.overview().agents[&id].client, None);

    let lost = ["a", "b"].map(|name| locks.lock(name).blocking().unwrap());
    let _holder = early.lock("c").blocking().unwrap();
    let mut waits = pin!(locks.lock("c").into_owned());
    assert!(!poll(waits.as_mut()));
    let mut next = pin!(early.lock("a").into_future());
    assert!(!poll(next.as_mut()));
    take_events(&mut looker);
    locks.terminate();
    let mut seen = words(&take_events(&mut looker));
    seen.sort_unstable();
    assert_eq!(seen, ["aborted", "granted", "lost", "lost"]);
    assert_eq!(names(looker.overview()), ["app/a", "app/c"]);

    assert!(looker.overview().agents.contains_key(&id));
    drop((locks, lost));
    assert!(matches!(block_on(waits), Err(Error::Terminated)));
    take_events(&mut looker);
    assert_eq!(looker.overview().agents.keys().collect::<Vec<_>>(), [&early.client_id()]);
}

#[test]
fn a_description_of_an_agent_is_shown_to_other_agents_and_ends_with_its_agent() {
    let bucket = UserAgent::new().bucket("app");
    let (a, b) = (bucket.lock_manager(), bucket.lock_manager());
    let mut info = AgentInfo::default();
    info.why = "to see".to_owned();
    a.describe(&info);
    let held = a.lock("db").blocking().unwrap();
    let inspection = block_on(b.inspect(None)).unwrap();
    assert_eq!(inspection.held[0].agent.as_deref(), Some(&info));
    let position = block_on(b.position("db".try_into().unwrap())).unwrap();
    assert_eq!(position.holder.unwrap().agent.as_deref(), Some(&info));
    drop((held, a));
    // Another agent has the number from this point on.
    let others = [(); 3].map(|()| bucket.lock_manager());
    let held = [0, 1, 2].map(|nth| others[nth].lock(format!("{nth}")).blocking().unwrap());
    let inspection = block_on(b.inspect(None)).unwrap();
    assert_eq!(inspection.held.len(), held.len());
    assert!(inspection.held.iter().all(|held| held.agent.is_none()));
}

#[test]
fn one_name_or_bucket_is_seen_without_the_others() {
    let user_agent = UserAgent::new();
    let db = || ResourceName::try_from("db").unwrap();
    let app = user_agent.lock_manager("app");
    let early = app.lock("early").blocking().unwrap();
    let mut all = begin_all(&user_agent);
    let mut bucket = begin(&user_agent, LookOptions::default().bucket("app"));
    let mut one = begin(&user_agent, LookOptions::default().name(db()));
    assert_eq!(names(bucket.overview()), ["app/early"]);
    assert!(one.overview().queues.is_empty());
    drop(early);
    // The other bucket did not exist when the looks began.
    let other = user_agent.lock_manager("other");
    let locks = [(&app, "db"), (&app, "x"), (&other, "db"), (&other, "x")];
    let held = locks.map(|(locks, name)| locks.lock(name).blocking().unwrap());
    for looker in [&mut all, &mut bucket, &mut one] {
        take_events(looker);
    }
    assert_eq!(names(all.overview()), ["app/db", "app/x", "other/db", "other/x"]);
    assert_eq!(names(bucket.overview()), ["app/db", "app/x"]);
    assert_eq!(names(one.overview()), ["app/db", "other/db"]);
    assert_eq!((all.overview().agents.len(), one.overview().agents.len()), (2, 2));
    assert_eq!(bucket.overview().agents.keys().collect::<Vec<_>>(), [&app.client_id()]);
    drop(held);
    for looker in [&mut all, &mut bucket, &mut one] {
        take_events(looker);
        assert!(looker.overview().queues.is_empty());
    }
}

#[test]
fn events_during_a_look_have_their_times_and_earlier_locks_are_marked_as_older() {
    let user_agent = UserAgent::new();
    let locks = user_agent.lock_manager("app");
    let held = locks.lock("held").blocking().unwrap();
    let waited = locks.lock("waited").blocking().unwrap();
    let mut waits = pin!(locks.lock("waited").into_future());
    assert!(!poll(waits.as_mut()));

    let before = Instant::now();
    let mut first = begin_all(&user_agent);
    let began = Instant::now();
    for queue in first.overview().queues.values() {
        for entry in queue.held.iter().chain(&queue.pending) {
            assert!(entry.is_older && before <= entry.since && entry.since <= began, "{entry:?}");
        }
    }
    drop(waited);
    let later = locks.lock("later").blocking().unwrap();
    let last = Instant::now();
    let seen = take_events(&mut first);
    assert!(seen.iter().all(|event| began <= event.at && event.at <= last));
    assert!(seen.is_sorted_by_key(|event| event.at));

    // A look that begins during another look shows the same.
    let second = begin_all(&user_agent);
    for looker in [&first, &second] {
        let since = |of: &str| {
            let entry = &looker.overview().queues[&name("app", of)].held[0];
            (entry.is_older, entry.since >= began)
        };
        assert_eq!(since("held"), (true, false));
        // This lock was granted during the look, whenever it was requested.
        assert_eq!(since("waited"), (false, true));
        assert_eq!(since("later"), (false, true));
    }
    assert_eq!(first.overview(), second.overview());
    let held_since = first.overview().queues[&name("app", "held")].held[0].since;

    // When nobody looks any more, the known times are forgotten.
    drop((first, second));
    let third = begin_all(&user_agent);
    let entry = &third.overview().queues[&name("app", "held")].held[0];
    assert!(entry.is_older && entry.since >= last && entry.since > held_since);
    assert!(third.overview().queues[&name("app", "later")].held[0].is_older);
    drop((held, later));
}

#[test]
fn a_slow_looker_is_told_how_much_it_has_missed_and_the_present_state() {
    const LOCKS: u64 = 40_000;
    let user_agent = UserAgent::new();
    let locks = user_agent.lock_manager("app");
    let mut slow = begin_all(&user_agent);
    let mut of_another = begin(&user_agent, LookOptions::default().name("x".try_into().unwrap()));
    let kept = locks.lock("kept").blocking().unwrap();
    for number in 0..LOCKS {
        drop(locks.lock(format!("{number}")).blocking().unwrap());
    }
    assert_eq!(slow.next(Some(LONG)), Ok(Some(News::Anew { missed: 2 * LOCKS + 1 })));
    assert_eq!(names(slow.overview()), ["app/kept"]);
    // The picture has the time of the grant, even though the looker has missed that event.
    assert!(!slow.overview().queues[&name("app", "kept")].held[0].is_older);
    // Events of other names do not count as missed.
    assert_eq!(of_another.next(Some(Duration::ZERO)), Ok(None));
    drop(kept);
    assert_eq!(words(&take_events(&mut slow)), ["released"]);
}

#[test]
fn names_that_are_long_are_not_kept_without_bound_for_who_is_slow() {
    let user_agent = UserAgent::new();
    let locks = user_agent.lock_manager("app");
    let mut slow = begin_all(&user_agent);
    for number in 0..100 {
        drop(locks.lock(format!("{number}{}", "x".repeat(1 << 20))).blocking().unwrap());
    }
    assert_eq!(slow.next(Some(LONG)), Ok(Some(News::Anew { missed: 200 })));
}

#[test]
fn a_waiting_looker_is_woken_by_events_of_its_name_only() {
    let user_agent = UserAgent::new();
    let locks = user_agent.lock_manager("app");
    let mut looker = begin(&user_agent, LookOptions::default().name("db".try_into().unwrap()));
    assert_eq!(looker.next(Some(Duration::from_millis(5))), Ok(None));
    thread::scope(|scope| {
        let heard = scope.spawn(|| looker.next(None));
        for other in 0..100 {
            drop(locks.lock(format!("{other}")).blocking().unwrap());
        }
        drop(locks.lock("db").blocking().unwrap());
        let Ok(Some(News::Events(events))) = heard.join().unwrap() else { panic!() };
        assert_eq!(words(&events)[0], "granted");
    });
}

#[test]
fn buckets_that_come_and_go_are_seen_by_who_looked_before() {
    let user_agent = UserAgent::new();
    let mut looker = begin_all(&user_agent);
    for _ in 0..3 {
        let locks = user_agent.lock_manager("app");
        let held = locks.lock("db").blocking().unwrap();
        let seen = take_events(&mut looker);
        assert_eq!(words(&seen), ["granted"]);
        assert_eq!(looker.overview().agents.len(), 1);
        drop((locks, held));
        assert_eq!(words(&take_events(&mut looker)), ["released"]);
        assert!(looker.overview().agents.is_empty());
    }
    // The bucket was opened during a look, and nobody looks at it now.
    let locks = user_agent.lock_manager("app");
    let _held = locks.lock("db").blocking().unwrap();
    drop(looker);
    drop(locks.lock("another").blocking().unwrap());
    let again = begin_all(&user_agent);
    assert_eq!(names(again.overview()), ["app/db"]);
}

#[test]
fn a_looker_that_looks_once_sees_the_present_state_each_time() {
    let user_agent = UserAgent::new();
    let locks = user_agent.lock_manager("app");
    let mut once = begin(&user_agent, LookOptions::default().once());
    for number in 1..4 {
        let guard = locks.lock(format!("{number}")).blocking().unwrap();
        assert_eq!(once.next(Some(LONG)), Ok(Some(News::Anew { missed: 0 })));
        assert_eq!(names(once.overview()), [format!("app/{number}")]);
        drop(guard);
    }
}

#[test]
fn locks_of_the_process_are_seen_through_every_handle_and_by_no_other_user_agent() {
    let locks = UserAgent::in_process().lock_manager("seen through every handle");
    let _held = locks.lock("db").blocking().unwrap();
    let options = || LookOptions::default().bucket("seen through every handle");
    let looker = begin(&UserAgent::in_process(), options());
    assert_eq!(names(looker.overview()).len(), 1);
    assert!(begin(&UserAgent::new(), options()).overview().queues.is_empty());
}

#[test]
fn a_user_agent_that_is_closed_is_seen_to_have_nothing() {
    let user_agent = UserAgent::new();
    let locks = ["a", "b"].map(|bucket| user_agent.lock_manager(bucket));
    let held = locks.each_ref().map(|locks| locks.lock("db").blocking().unwrap());
    let mut looker = begin_all(&user_agent);
    user_agent.close();
    assert_eq!(words(&take_events(&mut looker)), ["lost", "lost"]);
    assert!(looker.overview().queues.is_empty());
    drop((locks, held));
    take_events(&mut looker);
    assert!(looker.overview().agents.is_empty());
}

#[test]
fn a_reach_that_shows_nothing_is_not_looked_at() {
    let user_agent = UserAgent::with_reach(MemoryReach::default());
    assert!(user_agent.look(LookOptions::default()).is_none());
}

#[test]
fn a_look_that_is_over_is_told_nothing_and_the_others_go_on() {
    let user_agent = UserAgent::new();
    let locks = user_agent.lock_manager("app");
    let (mut goes_on, over) = (begin_all(&user_agent), begin_all(&user_agent));
    let held = locks.lock("a").shared().blocking().unwrap();
    drop(over);
    let other = locks.lock("b").blocking().unwrap();
    assert_eq!(words(&take_events(&mut goes_on)), ["granted", "granted"]);
    assert_eq!(goes_on.overview().queues[&name("app", "a")].held[0].mode, Mode::Shared);
    drop((held, other));
    assert_eq!(words(&take_events(&mut goes_on)), ["released", "released"]);
}
