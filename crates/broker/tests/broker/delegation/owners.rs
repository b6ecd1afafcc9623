//! Names that are owned, and those who ask for them.

use navlock_broker::{Control, NotStolen};
use navlock_core::{
    AgentInfo, ClientId, Lost, Mode,
    look::{LockId, LockName},
};
use navlock_delegation::Released;
use navlock_engine::RequestId;
use navlock_wire::{FromDaemon, ToDaemon};

use super::{Client, EXCLUSIVE, Host, SHARED, TRY};
use crate::leased::LeasedDaemon;

const STEAL: navlock_core::host::RequestKind = navlock_core::host::RequestKind::Steal;

#[test]
fn a_name_that_nobody_waits_for_is_taken_again_without_a_word() {
    let host = Host::start();
    let mut owner = host.owner(1);
    let (_, mut last) = owner.take_in(0, "db", EXCLUSIVE);
    for _ in 0..1000 {
        assert_eq!(owner.release(0), Released::Kept);
        let token = owner.retake(0).unwrap();
        assert!(token > last);
        last = token;
    }
    assert!(owner.waits(), "something was said");
    let mut other = host.client(2);
    let asked = other.ask("db", TRY);
    assert_eq!(other.raw.receive(), FromDaemon::Unavailable { request: asked });
}

#[test]
fn a_name_that_is_owned_but_not_held_is_granted_to_another_client_at_once() {
    for kind in [EXCLUSIVE, TRY, SHARED, STEAL] {
        let host = Host::start();
        let (mut owner, mut other) = (host.owner(1), host.client(2));
        owner.own(0, "db", EXCLUSIVE);
        let before = owner.retake(0).unwrap();
        assert_eq!(owner.release(0), Released::Kept);
        let (held, token) = other.take("db", kind);
        assert!(token > before, "{kind:?}");
        assert_eq!(owner.retake(0), None, "{kind:?}");
        // The owner held no lock, so it is told of no loss.
        assert!(owner.waits());
        let asked = owner.ask_in(0, "db", EXCLUSIVE);
        assert!(owner.waits());
        other.finish(held);
        assert!(owner.granted_in_slot(asked) > token);
    }
}

#[test]
fn a_name_that_its_owner_holds_is_granted_to_a_waiter_after_this_one_hold() {
    for slot in [None, Some(3)] {
        let host = Host::start();
        let (mut owner, mut other) = (host.owner(1), host.owner(2));
        let (held, token) = owner.take_in(0, "db", EXCLUSIVE);
        let asked = match slot {
            Some(slot) => other.ask_in(slot, "db", EXCLUSIVE),
            None => other.ask("db", EXCLUSIVE),
        };
        assert!(other.waits());
        assert_eq!(owner.release(0), Released::Tell);
        assert_eq!(owner.retake(0), None);
        owner.finish(held);
        let next = match slot {
            Some(_) => other.granted_in_slot(asked),
            None => other.granted(asked),
        };
        assert!(next > token);
        // A client that had to wait does not own the name: others may wait behind it.
        if let Some(slot) = slot {
            assert!(other.look(slot).is_recalled());
            assert_eq!(other.release(slot), Released::Tell);
        }
    }
}

#[test]
fn a_client_that_has_waited_owns_the_name_when_it_takes_the_name_again() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.owner(2));
    let (held, _) = owner.take_in(0, "db", EXCLUSIVE);
    let asked = other.ask_in(0, "db", EXCLUSIVE);
    assert!(other.waits());
    assert_eq!(owner.release(0), Released::Tell);
    owner.finish(held);
    other.granted_in_slot(asked);
    assert_eq!(other.release(0), Released::Tell);
    other.finish(asked);
    other.own(0, "db", EXCLUSIVE);
    assert!(other.retake(0).is_some());
}

/// The owner of a name, another client that was refused it, and the lock, which the owner has released in its word and
/// not by a message.
fn released_in_its_word(host: &Host) -> (Client, Client, RequestId) {
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    let (held, _) = owner.take_in(0, "db", EXCLUSIVE);
    let asked = other.ask("db", TRY);
    assert_eq!(other.raw.receive(), FromDaemon::Unavailable { request: asked });
    assert_eq!(owner.release(0), Released::Tell);
    (owner, other, held)
}

#[test]
fn an_if_available_request_for_a_held_name_is_refused_and_the_owner_tells_its_release() {
    let host = Host::start();
    let (mut owner, mut other, held) = released_in_its_word(&host);
    owner.finish(held);
    assert!(owner.waits());
    other.take("db", TRY);
}

#[test]
fn a_name_whose_word_is_free_is_granted_though_the_message_of_its_release_has_not_come() {
    for kind in [TRY, EXCLUSIVE, SHARED] {
        let host = Host::start();
        let (mut owner, mut other, held) = released_in_its_word(&host);
        other.take("db", kind);
        owner.finish(held);
        assert!(owner.waits());
    }
}

#[test]
fn a_theft_is_seen_in_the_map_before_the_thief_knows_of_it() {
    for slot in [None, Some(0)] {
        let host = Host::start();
        let (mut owner, mut thief) = (host.owner(1), host.owner(2));
        let (held, token) = owner.take_in(0, "db", EXCLUSIVE);
        let stolen = match slot {
            Some(slot) => thief.take_in(slot, "db", STEAL).1,
            None => thief.take("db", STEAL).1,
        };
        assert!(owner.look(0).is_stolen());
        assert!(stolen > token);
        assert_eq!(owner.release(0), Released::Gone);
        let how = (Lost::Stolen, Some(ClientId::from_bytes([2; 16])));
        assert_eq!(owner.raw.receive(), FromDaemon::Lost { request: held, how });
        if let Some(slot) = slot {
            assert!(thief.look(slot).is_held(), "the thief has stolen from itself");
        }
        // The slot can be used for another name.
        owner.slot(0).word().clear();
        owner.take_in(0, "other", EXCLUSIVE);
    }
}

#[test]
fn several_own_a_name_that_they_share_until_one_wants_it_alone() {
    let host = Host::start();
    let (mut one, mut two, mut writer) = (host.owner(1), host.owner(2), host.client(3));
    one.own(0, "db", SHARED);
    let of_two = two.own(0, "db", SHARED);
    // A third client that shares the name does not take it from the owners, and one of them can own it
    // twice.
    let (third, _) = writer.take("db", SHARED);
    one.own(1, "db", SHARED);
    writer.finish(third);
    for owner in [&one, &two] {
        assert!(owner.retake(0).is_some());
    }
    assert!(one.retake(1).is_some());
    assert_eq!(one.release(1), Released::Kept);
    assert_eq!(one.release(0), Released::Kept);
    let asked = writer.ask("db", EXCLUSIVE);
    assert!(writer.waits());
    assert_eq!((one.retake(0), one.retake(1)), (None, None));
    // A former owner that asks to share the name does not overtake the writer.
    let behind = one.ask_in(0, "db", SHARED);
    assert!(one.waits());
    assert_eq!(two.release(0), Released::Tell);
    two.finish(of_two);
    writer.granted(asked);
    writer.finish(asked);
    one.granted_in_slot(behind);
}

#[test]
fn a_shared_request_recalls_an_exclusive_owner_and_the_reverse() {
    let host = Host::start();
    let (mut owner, mut reader) = (host.owner(1), host.owner(2));
    owner.own(0, "db", EXCLUSIVE);
    reader.own(0, "db", SHARED);
    assert_eq!(owner.retake(0), None);
    // And the other way round.
    owner.own(1, "db", EXCLUSIVE);
    assert_eq!(reader.retake(0), None);
}

#[test]
fn another_agent_of_the_same_client_asks_as_any_other() {
    let host = Host::start();
    let mut owner = host.owner(1);
    let open = ToDaemon::OpenAgent { agent: 1, client_id: [9; 16], bucket: "app".to_owned() };
    owner.raw.say(&[open]);
    owner.own(0, "db", EXCLUSIVE);
    let request = owner.number();
    let name = "db".try_into().unwrap();
    owner.raw.say(&[ToDaemon::Request { agent: 1, request, name, kind: EXCLUSIVE, slot: None }]);
    owner.granted(request);
    assert_eq!(owner.retake(0), None);
}

#[test]
fn names_of_other_buckets_are_other_names() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    owner.own(0, "db", EXCLUSIVE);
    let open = ToDaemon::OpenAgent { agent: 1, client_id: [9; 16], bucket: "other".to_owned() };
    let (request, name) = (other.number(), "db".try_into().unwrap());
    other
        .raw
        .say(&[open, ToDaemon::Request { agent: 1, request, name, kind: EXCLUSIVE, slot: None }]);
    other.granted(request);
    assert!(owner.retake(0).is_some());
}

#[test]
fn an_agent_that_ends_holds_and_owns_nothing_when_others_are_granted_it() {
    for word in [ToDaemon::Terminate { agent: 0 }, ToDaemon::CloseAgent { agent: 0 }] {
        let host = Host::start();
        let (mut owner, mut other) = (host.owner(1), host.client(2));
        owner.own(0, "idle", EXCLUSIVE);
        owner.take_in(1, "held", EXCLUSIVE);
        let [idle, held] = ["idle", "held"].map(|name| {
            let request = other.ask(name, EXCLUSIVE);
            (name == "idle").then(|| other.granted(request));
            request
        });
        assert!(other.waits());
        owner.raw.say(&[word]);
        other.granted(held);
        other.finish(idle);
        assert!(owner.look(1).is_revoked());
        assert_eq!((owner.retake(0), owner.retake(1)), (None, None));
    }
}

#[test]
fn a_client_that_is_hung_up_on_holds_nothing_when_others_are_granted_it() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    owner.own(0, "idle", EXCLUSIVE);
    owner.take_in(1, "held", EXCLUSIVE);
    let asked = other.ask("held", EXCLUSIVE);
    assert!(other.waits());
    // A message that no client sends.
    owner.raw.say(&[ToDaemon::CloseAgent { agent: 77 }]);
    other.granted(asked);
    assert!(owner.look(1).is_revoked());
    other.take("idle", TRY);
    assert_eq!(owner.retake(0), None);
    assert!(!owner.look(0).is_lost(), "it did not hold that");
}

#[test]
fn a_lock_that_is_released_by_a_message_is_not_held_in_the_map() {
    let host = Host::start();
    let (mut owner, mut other) = (host.owner(1), host.client(2));
    let (held, _) = owner.take_in(0, "db", EXCLUSIVE);
    owner.finish(held);
    other.take("db", EXCLUSIVE);
    assert!(owner.look(0).is_revoked());
}

#[test]
fn a_daemon_that_is_told_so_has_its_clients_ask_for_each_lock() {
    let host = Host::with(|options| options.delegate = false);
    let mut client = host.client(1);
    assert!(!client.make_map());
    let asked = client.ask_in(0, "db", EXCLUSIVE);
    client.granted(asked);
    assert!(client.look(0).is_free());
    assert_eq!(host.detail("owned names").as_deref(), Some("none, as the settings say"));
}

#[test]
fn where_locks_are_leased_names_are_asked_for_each_time() {
    let daemon = LeasedDaemon::started();
    let mut client = Client::connect(daemon.path(), 1);
    assert!(!client.make_map());
    let asked = client.ask_in(0, "db", EXCLUSIVE);
    let granted = |message: &FromDaemon| match message {
        FromDaemon::Granted { request, .. } => Some(*request),
        _ => None,
    };
    assert_eq!(client.raw.receive_until(granted).0, asked);
    assert!(client.look(0).is_free());
}

#[test]
fn a_request_in_a_slot_that_is_not_for_use_is_granted_without_it() {
    let host = Host::start();
    let mut owner = host.owner(1);
    owner.take_in(0, "held", EXCLUSIVE);
    for slot in [0, 63, 1022, u32::MAX] {
        let (request, name) = (owner.number(), format!("{slot}").as_str().try_into().unwrap());
        let kind = navlock_core::host::RequestKind::Wait(Mode::Exclusive);
        owner.raw.say(&[ToDaemon::Request { agent: 0, request, name, kind, slot: Some(slot) }]);
        owner.granted(request);
    }
    assert!(owner.look(0).is_held());
}

#[test]
fn an_owner_that_holds_its_name_anew_is_none_that_was_seen() {
    let host = Host::start();
    let mut owner = host.owner(1);
    let name = LockName::new("app", "db".try_into().unwrap());
    let steal = |request: RequestId, token| {
        let id = LockId { client_id: ClientId::from_bytes([1; 16]), serial: request.serial() };
        let mut control = Control::connect(&host.place()).unwrap();
        control.steal(&name, &[(id, token)], &AgentInfo::default()).unwrap()
    };
    let (request, token) = owner.take_in(0, "db", EXCLUSIVE);
    assert_eq!(owner.release(0), Released::Kept);
    // A name that is owned, but not held, cannot be stolen.
    assert_eq!(steal(request, token), Err(NotStolen::Free));

    let (request, first) = owner.take_in(1, "db", EXCLUSIVE);
    assert_eq!(owner.release(1), Released::Kept);
    let second = owner.retake(1).unwrap();
    assert_eq!(steal(request, first), Err(NotStolen::HeldByOthers));
    assert!(owner.look(1).is_held());
    assert_eq!(steal(request, second), Ok(1));
    assert!(owner.look(1).is_lost());
}
