use crate::{
    AgentId,
    Event::{self, Granted, Stolen, Terminated, Unavailable},
    FencingToken, LockManager,
    Mode::{Exclusive, Shared},
    NameHasher, RequestId,
    RequestKind::{IfAvailable, Steal, Wait},
    ResourceName, Status,
};

const ALICE: AgentId = AgentId::from_index(0);
const BOB: AgentId = AgentId::from_index(1);
const CAROL: AgentId = AgentId::from_index(2);

fn name(name: &str) -> ResourceName {
    ResourceName::try_from(name).unwrap()
}

/// Asserts that exactly these events have happened since the last call, in this order.
#[track_caller]
fn assert_events<const N: usize>(locks: &mut LockManager, expected: [Event; N]) {
    let events: Vec<_> = std::iter::from_fn(|| locks.poll_event()).collect();
    assert_eq!(events, expected);
}

/// The requests that wait, in the order of the snapshot.
fn pending(locks: &LockManager) -> Vec<RequestId> {
    let pending = locks.snapshot_lock_state().filter(|entry| !entry.is_held);
    pending.map(|request| request.id).collect()
}

#[test]
fn aborting_a_waiting_writer_admits_the_reader_behind_it() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let first = locks.request_lock(ALICE, &db, Wait(Shared));
    let writer = locks.request_lock(ALICE, &db, Wait(Exclusive));
    let second = locks.request_lock(ALICE, &db, Wait(Shared));
    assert_events(&mut locks, [Granted(first)]);

    locks.abort_request(writer);
    assert_events(&mut locks, [Granted(second)]);
}

#[test]
fn a_lock_is_not_available_while_somebody_waits_for_it() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let reader = locks.request_lock(ALICE, &db, Wait(Shared));
    let writer = locks.request_lock(ALICE, &db, Wait(Exclusive));
    assert_events(&mut locks, [Granted(reader)]);

    let hasty = locks.request_lock(BOB, &db, IfAvailable(Shared));
    assert_events(&mut locks, [Unavailable(hasty)]);
    assert_eq!(locks.status(hasty), Status::Gone);

    locks.abort_request(writer);
    let in_time = locks.request_lock(BOB, &db, IfAvailable(Shared));
    assert_events(&mut locks, [Granted(in_time)]);
}

#[test]
fn a_reader_does_not_overtake_a_waiting_writer() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let first = locks.request_lock(ALICE, &db, Wait(Shared));
    let writer = locks.request_lock(BOB, &db, Wait(Exclusive));
    let second = locks.request_lock(ALICE, &db, Wait(Shared));
    assert_events(&mut locks, [Granted(first)]);

    locks.release_lock(first);
    assert_events(&mut locks, [Granted(writer)]);
    locks.release_lock(writer);
    assert_events(&mut locks, [Granted(second)]);
}

#[test]
fn readers_in_a_row_are_granted_together_as_far_as_the_next_writer() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let holder = locks.request_lock(ALICE, &db, Wait(Exclusive));
    let first = locks.request_lock(ALICE, &db, Wait(Shared));
    let second = locks.request_lock(BOB, &db, Wait(Shared));
    let writer = locks.request_lock(ALICE, &db, Wait(Exclusive));
    let third = locks.request_lock(ALICE, &db, Wait(Shared));
    assert_events(&mut locks, [Granted(holder)]);

    locks.release_lock(holder);
    assert_events(&mut locks, [Granted(first), Granted(second)]);
    assert_eq!(pending(&locks), [writer, third]);
}

#[test]
fn writers_are_granted_one_by_one_in_the_order_in_which_they_asked() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let writers = [ALICE, BOB, ALICE].map(|agent| locks.request_lock(agent, &db, Wait(Exclusive)));

    for writer in writers {
        assert_events(&mut locks, [Granted(writer)]);
        locks.release_lock(writer);
    }
    assert!(locks.is_empty());
}

#[test]
fn different_names_do_not_wait_for_each_other() {
    let mut locks = LockManager::default();
    let db = locks.request_lock(ALICE, &name("db"), Wait(Exclusive));
    let waiter = locks.request_lock(BOB, &name("db"), Wait(Exclusive));
    let log = locks.request_lock(BOB, &name("log"), Wait(Exclusive));
    assert_events(&mut locks, [Granted(db), Granted(log)]);

    locks.release_lock(log);
    assert_events(&mut locks, []);
    assert_eq!(locks.status(waiter), Status::Pending);
}

#[test]
fn a_long_name_that_nobody_holds_or_waits_for_is_forgotten() {
    let (mut locks, long) = (LockManager::default(), name("a name that is too long to be kept"));
    let holder = locks.request_lock(ALICE, &long, Wait(Exclusive));
    let waiter = locks.request_lock(BOB, &long, Wait(Exclusive));
    locks.abort_request(waiter);
    assert_eq!(locks.resources.len(), 1);

    locks.release_lock(holder);
    assert!(locks.resources.is_empty());
    assert!(locks.names.is_empty());
}

#[test]
fn a_thief_takes_the_lock_from_all_holders_and_goes_before_all_waiters() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let first = locks.request_lock(ALICE, &db, Wait(Shared));
    let second = locks.request_lock(BOB, &db, Wait(Shared));
    let writer = locks.request_lock(ALICE, &db, Wait(Exclusive));
    let reader = locks.request_lock(BOB, &db, Wait(Shared));
    assert_events(&mut locks, [Granted(first), Granted(second)]);

    let thief = locks.request_lock(BOB, &db, Steal);
    assert_events(&mut locks, [Stolen(first), Stolen(second), Granted(thief)]);
    assert_eq!(pending(&locks), [writer, reader]);
}

#[test]
fn a_victim_that_ends_later_does_not_release_the_lock_of_its_thief() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let victim = locks.request_lock(ALICE, &db, Wait(Exclusive));
    let thief = locks.request_lock(BOB, &db, Steal);
    let waiter = locks.request_lock(ALICE, &db, Wait(Exclusive));
    assert_events(&mut locks, [Granted(victim), Stolen(victim), Granted(thief)]);

    locks.release_lock(victim);
    locks.finish(victim);
    assert_events(&mut locks, []);

    locks.release_lock(thief);
    assert_events(&mut locks, [Granted(waiter)]);
}

#[test]
fn a_thief_is_the_victim_of_the_next_thief() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let first = locks.request_lock(ALICE, &db, Steal);
    let second = locks.request_lock(BOB, &db, Steal);
    assert_events(&mut locks, [Granted(first), Stolen(first), Granted(second)]);
}

#[test]
fn an_id_means_nothing_to_the_request_that_took_its_place() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let gone = locks.request_lock(ALICE, &db, Wait(Exclusive));
    locks.release_lock(gone);
    let holder = locks.request_lock(BOB, &db, Wait(Exclusive));
    assert_eq!(gone.index(), holder.index());
    assert_events(&mut locks, [Granted(gone), Granted(holder)]);

    locks.finish(gone);
    assert_eq!(locks.status(gone), Status::Gone);
    assert!(matches!(locks.status(holder), Status::Held(_)));
}

#[test]
fn a_short_name_that_is_idle_is_kept_unseen_until_another_is_asked_for() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let long = name("a name that is too long to be kept");
    let ids = [&db, &db, &long].map(|name| {
        let id = locks.request_lock(ALICE, name, Wait(Exclusive));
        locks.finish(id);
        // A name that is used again at once is the same resource, and no long name is kept after
        // its use.
        assert_eq!((locks.names_known(), locks.is_empty()), (usize::from(name == &db), true));
        assert_eq!(locks.snapshot_lock_state().next(), None);
        id
    });
    assert_events(&mut locks, ids.map(Granted));

    // If two names become idle, the last one is kept.
    let [first, second] =
        ["a", "b"].map(|text| locks.request_lock(ALICE, &name(text), Wait(Exclusive)));
    locks.finish(first);
    assert_eq!(locks.names_known(), 2);
    locks.finish(second);
    assert_eq!(locks.names_known(), 1);
    // The name that was kept is as free as any other name.
    let again = locks.request_lock(BOB, &name("b"), IfAvailable(Exclusive));
    assert_events(&mut locks, [Granted(first), Granted(second), Granted(again)]);
}

#[test]
fn data_of_the_host_in_a_request_comes_back_when_the_request_is_granted_or_ends() {
    let mut locks: LockManager<Option<&str>> =
        LockManager::with_data(NameHasher::default(), FencingToken::new(1));
    let db = name("db");
    let [holder, next, aborted, dying] =
        [ALICE, ALICE, ALICE, BOB].map(|agent| locks.request_lock(agent, &db, Wait(Exclusive)));
    for (id, data) in [(holder, "held"), (next, "next"), (aborted, "aborted"), (dying, "dying")] {
        *locks.data(id).unwrap() = Some(data);
    }
    assert_eq!(locks.poll_event_with_data(), Some((Granted(holder), None)));
    assert_eq!(locks.finish(aborted), Some(Some("aborted")));
    locks.terminate_remaining_locks_and_requests(&[BOB]);
    assert_eq!(locks.poll_event_with_data(), Some((Terminated(dying), Some("dying"))));
    assert_eq!(locks.finish(holder), Some(Some("held")));
    assert_eq!(locks.poll_event_with_data(), Some((Granted(next), Some("next"))));
    // A lock begins without data of the host.
    assert_eq!(locks.data(next), Some(&mut None));
    assert_eq!(locks.data(holder), None);
    assert_eq!(locks.finish(holder), None);
    *locks.data(next).unwrap() = Some("stolen");
    locks.request_lock(BOB, &db, Steal);
    assert_eq!(locks.poll_event_with_data(), Some((Stolen(next), Some("stolen"))));
}

#[test]
fn an_abort_after_the_grant_comes_too_late() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let holder = locks.request_lock(ALICE, &db, Wait(Exclusive));

    locks.abort_request(holder);
    assert!(matches!(locks.status(holder), Status::Held(_)));
    locks.finish(holder);
    assert_eq!(locks.status(holder), Status::Gone);
}

#[test]
fn an_aborted_request_is_gone_from_the_snapshot_at_once() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    locks.request_lock(ALICE, &db, Wait(Exclusive));
    let aborted = locks.request_lock(BOB, &db, Wait(Exclusive));
    let other = locks.request_lock(ALICE, &db, Wait(Exclusive));

    locks.abort_request(aborted);
    assert_eq!(pending(&locks), [other]);
    assert_eq!(locks.status(aborted), Status::Gone);
}

#[test]
fn an_agent_that_ends_leaves_its_queues_then_its_locks_then_others_are_woken() {
    let mut locks = LockManager::default();
    let (db, log) = (name("db"), name("log"));
    let holder = locks.request_lock(ALICE, &db, Wait(Exclusive));
    let bobs = locks.request_lock(BOB, &log, Wait(Shared));
    let waits_behind_lock = locks.request_lock(BOB, &db, Wait(Shared));
    let writer = locks.request_lock(ALICE, &log, Wait(Exclusive));
    let waits_behind_request = locks.request_lock(BOB, &log, Wait(Shared));
    assert_events(&mut locks, [Granted(holder), Granted(bobs)]);

    locks.terminate_remaining_locks_and_requests(&[ALICE]);
    assert_events(
        &mut locks,
        [
            Terminated(writer),
            Terminated(holder),
            Granted(waits_behind_request),
            Granted(waits_behind_lock),
        ],
    );
}

#[test]
fn nothing_is_granted_to_an_agent_that_ends() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let holder = locks.request_lock(ALICE, &db, Wait(Exclusive));
    let own_waiter = locks.request_lock(ALICE, &db, Wait(Exclusive));
    let other_waiter = locks.request_lock(BOB, &db, Wait(Exclusive));
    assert_events(&mut locks, [Granted(holder)]);

    locks.terminate_remaining_locks_and_requests(&[ALICE]);
    assert_events(&mut locks, [Terminated(own_waiter), Terminated(holder), Granted(other_waiter)]);
}

#[test]
fn nothing_is_granted_to_an_agent_that_ends_together_with_the_holder() {
    let (mut locks, db, log) = (LockManager::default(), name("db"), name("log"));
    // Each of the two agents waits for the lock that the other holds, so to end one of them after
    // the other would grant something in either order.
    let alices = locks.request_lock(ALICE, &db, Wait(Exclusive));
    let bobs = locks.request_lock(BOB, &log, Wait(Exclusive));
    let bob_waits = locks.request_lock(BOB, &db, Wait(Exclusive));
    let alice_waits = locks.request_lock(ALICE, &log, Wait(Exclusive));
    let carol_waits = locks.request_lock(CAROL, &db, Wait(Exclusive));
    assert_events(&mut locks, [Granted(alices), Granted(bobs)]);

    locks.terminate_remaining_locks_and_requests(&[ALICE, BOB]);
    assert_events(
        &mut locks,
        [
            Terminated(alice_waits),
            Terminated(bob_waits),
            Terminated(alices),
            Terminated(bobs),
            Granted(carol_waits),
        ],
    );
}

#[test]
fn the_snapshot_shows_holders_and_waiters_of_a_name_in_their_order() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    let readers = [ALICE, BOB].map(|agent| locks.request_lock(agent, &db, Wait(Shared)));
    let waiters =
        [Exclusive, Shared, Exclusive].map(|mode| locks.request_lock(BOB, &db, Wait(mode)));

    let (held, pending): (Vec<_>, Vec<_>) =
        locks.snapshot_lock_state().partition(|entry| entry.is_held);
    assert!(
        held.iter().map(|lock| (lock.id, lock.agent)).eq(readers.into_iter().zip([ALICE, BOB]))
    );
    assert!(
        pending
            .iter()
            .map(|request| (request.id, request.mode))
            .eq(waiters.into_iter().zip([Exclusive, Shared, Exclusive]))
    );
}

#[test]
fn an_agent_is_known_from_its_first_request_until_its_end() {
    let (mut locks, db) = (LockManager::default(), name("db"));
    assert!(!locks.knows(ALICE));
    let lock = locks.request_lock(ALICE, &db, Wait(Exclusive));
    assert!(locks.knows(ALICE) && !locks.knows(BOB));
    locks.release_lock(lock);
    assert!(locks.knows(ALICE));
    locks.terminate_remaining_locks_and_requests(&[ALICE]);
    assert!(!locks.knows(ALICE));
}
