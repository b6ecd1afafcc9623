//! Clients that have not come back when a daemon takes over, and whose maps tell what they hold.

use super::{EXCLUSIVE, Host, SHARED, TRY};
use navlock_core::{ClientId, Lost};
use navlock_delegation::Released;
use navlock_wire::{FromDaemon, ToDaemon};
use std::time::Duration;

#[test]
fn a_client_that_sleeps_through_the_end_of_a_daemon_keeps_its_locks_until_it_ends() {
    let mut host = Host::start();
    let mut owner = host.owner(1);
    let (_, token) = owner.take_in(0, "db", EXCLUSIVE);
    owner.take_in(1, "shared", SHARED);
    // Twice, and the client does not come back in between.
    for _ in 0..2 {
        host.kill();
        host.begin();
        let mut other = host.client(2);
        let (held, idle) = other.inspect();
        assert_eq!((held.len(), idle.len()), (2, 0), "{held:?} {idle:?}");
        let db = held.iter().find(|held| held.lock.name.as_str() == Some("db")).unwrap();
        assert_eq!(
            (db.fencing_token, db.lock.client_id),
            (Some(token), ClientId::from_bytes([1; 16]))
        );
        let (shared, _) = other.take("shared", SHARED);
        other.finish(shared);
        let (status, _) = other.status();
        let numbers = status.numbers;
        assert_eq!((numbers.held, numbers.clients, numbers.orphans), (2, 2, 0));
        assert!(owner.look(0).is_held());
    }
    let mut other = host.client(3);
    let asked = other.ask("db", EXCLUSIVE);
    assert!(other.waits());
    drop(owner);
    assert!(other.granted(asked) > token);
}

#[test]
fn a_sleeper_that_wakes_up_goes_on_with_what_it_holds() {
    let mut host = Host::start();
    let mut owner = host.owner(1);
    let (db, token) = owner.take_in(0, "db", EXCLUSIVE);
    let (gone, _) = owner.take_in(1, "gone", EXCLUSIVE);
    host.kill();
    host.begin();
    let mut other = host.client(2);
    let asked = ["db", "gone"].map(|name| other.ask(name, EXCLUSIVE));
    assert!(other.waits());
    // The client releases one of the locks before it comes back.
    assert_eq!(owner.release(1), Released::Tell);
    let claims = [owner.claim(0)];
    assert_eq!(owner.come_back(&claims), []);
    other.granted(asked[1]);
    assert!(other.waits());
    assert!(owner.look(0).is_held());
    // From here on the client can use the slots again.
    owner.slot(0).word().clear();
    let nonce = owner.map.as_ref().unwrap().nonce();
    owner.raw.say(&[ToDaemon::Map { nonce }]);
    assert!(matches!(owner.all_said()[..], [FromDaemon::Mapped { .. }]));
    owner.asked = 50;
    let (another, _) = owner.take_in(0, "another", EXCLUSIVE);
    owner.finish(db);
    assert!(owner.waits());
    assert!(owner.look(0).is_held(), "it was taken back with what stood there before");
    assert_eq!(owner.release(0), Released::Kept);
    owner.slot(0).word().clear();
    owner.finish(another);
    assert!(other.granted(asked[0]) > token);
    assert!(owner.look(0).is_free());
    owner.finish(gone);
    assert!(owner.waits());
}

#[test]
fn a_lock_that_a_sleeper_releases_without_a_message_becomes_free() {
    let mut host = Host::start();
    let mut owner = host.owner(1);
    owner.take_in(0, "db", EXCLUSIVE);
    owner.take_in(1, "other", EXCLUSIVE);
    host.kill();
    host.begin();
    let mut other = host.client(2);
    let asked = other.ask("db", EXCLUSIVE);
    assert!(other.waits());
    assert_eq!(owner.release(0), Released::Tell);
    other.granted(asked);
    // A release is noticed at once if somebody asks what is held.
    assert_eq!(owner.release(1), Released::Tell);
    assert_eq!(other.query().0, ["db"]);
}

#[test]
fn a_sleeper_that_was_stolen_from_sees_it_and_is_told_when_it_wakes_up() {
    let mut host = Host::start();
    let mut owner = host.owner(1);
    let (db, _) = owner.take_in(0, "db", EXCLUSIVE);
    host.kill();
    host.begin();
    let mut thief = host.client(2);
    let claims = [owner.claim(0)];
    thief.take("db", navlock_core::host::RequestKind::Steal);
    assert!(owner.look(0).is_stolen());
    let told = owner.come_back(&claims);
    assert_eq!(told, [FromDaemon::Lost { request: db, how: (Lost::Disconnected, None) }]);
}

#[test]
fn a_waiter_behind_a_sleeper_keeps_its_place_in_the_queue() {
    let mut host = Host::with(|options| options.recovery_time = Duration::from_secs(1));
    let (mut sleeper, mut waiter) = (host.owner(1), host.client(2));
    let (_, _) = sleeper.take_in(0, "db", EXCLUSIVE);
    let asked = waiter.ask("db", EXCLUSIVE);
    assert!(waiter.waits());
    host.kill();
    host.begin();
    let name = "db".try_into().unwrap();
    let claim =
        ToDaemon::ClaimRequest { agent: 0, request: asked, name, kind: EXCLUSIVE, since: 1 };
    assert_eq!(waiter.come_back(&[claim]), []);
    let mut last = host.client(3);
    let behind = last.ask("db", EXCLUSIVE);
    assert!(last.waits());
    drop(sleeper);
    waiter.granted(asked);
    assert!(last.waits());
    waiter.finish(asked);
    last.granted(behind);
}

#[test]
fn a_sleeper_without_a_map_is_given_up_beside_one_with_a_map_that_is_kept() {
    let mut host = Host::start();
    let (mut old, mut owner) = (host.client(1), host.owner(2));
    let (request, old_token) = old.take("old", EXCLUSIVE);
    let (_, token) = owner.take_in(0, "new", EXCLUSIVE);
    owner.own(1, "idle", EXCLUSIVE);
    host.kill();
    host.begin();
    let mut other = host.client(3);
    assert!(other.take("old", TRY).1 > old_token);
    assert!(!old.path().exists(), "it cannot know that it was given up");
    other.take("idle", TRY);
    let asked = other.ask("new", TRY);
    assert_eq!(other.raw.receive(), FromDaemon::Unavailable { request: asked });
    assert!(owner.look(0).is_held() && owner.path().exists());
    // Both clients come back.
    let name = "old".try_into().unwrap();
    let (mode, since) = (EXCLUSIVE.mode(), 1);
    let claim = ToDaemon::ClaimLock { agent: 0, request, name, mode, token: old_token, since };
    let told = old.come_back(&[claim]);
    assert_eq!(told, [FromDaemon::Lost { request, how: (Lost::Disconnected, None) }]);
    let claims = [owner.claim(0)];
    assert_eq!(owner.come_back(&claims), []);
    let asked = old.ask("new", EXCLUSIVE);
    assert!(old.waits());
    drop(owner);
    assert!(old.granted(asked) > token);
}
