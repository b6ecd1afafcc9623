//! Maps that contain what no client writes.

use std::{net::Shutdown, os::unix::fs::FileExt};

use navlock_core::host::RequestKind;
use navlock_delegation::Released;
use navlock_wire::{FromDaemon, ToDaemon};

use super::{Client, EXCLUSIVE, Host, TRY};

/// Asserts that other clients are served as usual, whatever one client has done.
fn assert_others_are_served(host: &Host, other: &mut Client) {
    let mut owner = host.owner(99);
    owner.own(0, "other", EXCLUSIVE);
    let (held, _) = other.take("other", TRY);
    other.finish(held);
    assert_eq!(owner.retake(0), None);
    other.query();
    other.inspect();
    assert!(host.detail("owned names").is_some());
}

#[test]
fn a_file_that_is_no_map_is_none() {
    let host = Host::start();
    for (number, bytes) in [(1, vec![]), (2, vec![0; 100]), (3, vec![0xA5; 20_000])] {
        let mut client = host.client(number);
        client.file.write_all_at(&bytes, 0).unwrap();
        client.raw.say(&[ToDaemon::Map { nonce: 7 }]);
        assert!(client.waits(), "it was mapped");
        client.take("db", EXCLUSIVE);
        drop(client);
    }
    assert_others_are_served(&host, &mut host.client(4));
}

#[test]
fn another_number_than_that_in_the_map_is_not_answered() {
    let host = Host::start();
    let mut client = host.client(1);
    let map = navlock_delegation::OwnerMap::make(&client.file).unwrap();
    client.raw.say(&[ToDaemon::Map { nonce: map.nonce() ^ 1 }]);
    assert!(client.waits());
    // The right number is answered.
    client.raw.say(&[ToDaemon::Map { nonce: map.nonce() }]);
    assert!(matches!(client.all_said()[..], [FromDaemon::Mapped { .. }]));
}

#[test]
fn noise_in_a_map_harms_its_client_alone() {
    let host = Host::start();
    let mut other = host.client(2);
    for seed in 0..8_u8 {
        let mut owner = host.owner(1);
        for slot in 0..40 {
            owner.own(slot, &format!("{slot}"), EXCLUSIVE);
        }
        // All slots, and then the head as well.
        let from = if seed % 2 == 0 { 256 } else { 0 };
        let mut number = u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let noise = (from..16_384_u64).map(|_| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            number.to_be_bytes()[0]
        });
        owner.file.write_all_at(&noise.collect::<Vec<_>>(), from).unwrap();
        other.query();
        other.inspect();
        for slot in 0..40 {
            // The lock is granted or it is not, depending on what the noise says.
            let asked = other.ask(&format!("{slot}"), TRY);
            match other.raw.receive() {
                FromDaemon::Granted { request, .. } => other.finish(request),
                FromDaemon::Unavailable { request } => assert_eq!(request, asked),
                other => panic!("{other:?}"),
            }
        }
        assert_others_are_served(&host, &mut other);
        drop(owner);
        // When the client has gone, its map counts no more.
        for slot in 0..40 {
            let (held, _) = other.take(&format!("{slot}"), EXCLUSIVE);
            other.finish(held);
        }
    }
}

#[test]
fn a_map_without_bytes_is_one_in_which_nothing_is_held() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    owner.take_in(0, "held", EXCLUSIVE);
    owner.own(1, "idle", EXCLUSIVE);
    owner.file.set_len(0).unwrap();
    for name in ["held", "idle"] {
        other.take(name, EXCLUSIVE);
    }
    assert_others_are_served(&host, &mut other);
}

#[test]
fn names_in_the_rest_of_a_truncated_map_are_recalled_as_ever() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    assert!(owner.map.as_ref().unwrap().grow().unwrap() > 100);
    owner.own(100, "gone", EXCLUSIVE);
    owner.own(3, "left", EXCLUSIVE);
    let (held, _) = owner.take_in(4, "held", EXCLUSIVE);
    owner.file.set_len(16_384).unwrap();
    // These requests have the daemon look at the slots.
    other.take("gone", EXCLUSIVE);
    other.take("left", EXCLUSIVE);
    assert_eq!(owner.retake(3), None);
    let asked = other.ask("held", EXCLUSIVE);
    assert!(other.waits());
    assert_eq!(owner.release(4), Released::Tell);
    owner.finish(held);
    other.granted(asked);
    assert_others_are_served(&host, &mut other);
}

#[test]
fn a_slot_that_is_used_twice_harms_its_client_alone() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    owner.own(0, "one", EXCLUSIVE);
    // The client clears the slot, and tells nobody.
    owner.slot(0).word().clear();
    let second = owner.ask_in(0, "two", EXCLUSIVE);
    owner.granted(second);
    let asked = other.ask("two", EXCLUSIVE);
    let also = other.ask("one", TRY);
    assert!(matches!(
        other.raw.receive(),
        FromDaemon::Granted { request, .. } | FromDaemon::Unavailable { request } if request == also
    ));
    assert!(other.waits());
    drop(owner);
    other.granted(asked);
    assert_others_are_served(&host, &mut other);
}

#[test]
fn a_name_that_its_owner_never_gives_back_is_taken_when_the_owner_goes() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    owner.own(0, "db", EXCLUSIVE);
    let asked = other.ask("db", EXCLUSIVE);
    other.granted(asked);
    other.finish(asked);
    other.take("db", EXCLUSIVE);
    // The client writes into the word that it holds a lock which another client has: that changes
    // nothing.
    let held = navlock_delegation::Look::from_bits(0b11 | 9 << 5).bits().to_ne_bytes();
    owner.file.write_all_at(&held, 256).unwrap();
    assert!(owner.look(0).is_held());
    let mut third = host.client(3);
    assert_eq!(third.query().0, ["db"]);
    let asked = third.ask("db", TRY);
    assert_eq!(third.raw.receive(), FromDaemon::Unavailable { request: asked });
    drop(owner);
    assert_others_are_served(&host, &mut third);
}

#[test]
fn a_client_that_cannot_hear_is_granted_nothing_in_a_slot_and_its_session_ends() {
    let host = Host::start();
    let (mut owner, mut mute) = (host.owner(1), host.owner(2));
    owner.take_in(0, "db", EXCLUSIVE);
    mute.take_in(1, "its own", EXCLUSIVE);
    let waiting = owner.ask_in(1, "its own", EXCLUSIVE);
    assert!(owner.waits());
    mute.raw.stream.shutdown(Shutdown::Read).unwrap();
    let mut said: Vec<_> = (0..1000).map(|query| ToDaemon::Status { query }).collect();
    for _ in 0..200 {
        let (request, name) = (mute.number(), "db".try_into().unwrap());
        let kind = RequestKind::Steal;
        said.push(ToDaemon::Request { agent: 0, request, name, kind, slot: Some(0) });
    }
    mute.raw.say(&said);
    owner.granted_in_slot(waiting);
    assert!(owner.look(0).is_held());
}
