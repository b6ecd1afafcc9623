//! Daemons that take over from others, whose clients have maps.

use std::{io::Read, time::Duration};

use navlock_broker::{Look, LookOptions, News};
use navlock_core::{Lost, Mode};
use navlock_delegation::Released;
use navlock_engine::RequestId;
use navlock_wire::{FromDaemon, ToDaemon, VERSION};

use super::{EXCLUSIVE, Host, SHARED, TRY};
use crate::{
    daemon::{LONG, eventually},
    raw::Raw,
};

#[test]
fn owners_go_on_while_there_is_no_daemon_and_the_next_one_recalls_them() {
    let mut host = Host::start();
    let mut owner = host.owner(1);
    owner.own(0, "idle", EXCLUSIVE);
    owner.own(1, "taken", EXCLUSIVE);
    host.kill();
    let token = owner.retake(1).unwrap();
    assert!(owner.retake(0).is_some());
    assert_eq!(owner.release(0), Released::Kept);
    host.begin();
    // The names are recalled whether the client comes back or not.
    assert_eq!(owner.retake(0), None);
    assert!(owner.look(1).is_held() && owner.look(1).is_recalled());
    let mut other = host.client(2);
    assert!(other.take("idle", TRY).1 > token);
    let asked = other.ask("taken", TRY);
    assert_eq!(other.raw.receive(), FromDaemon::Unavailable { request: asked });
}

#[test]
fn a_client_that_comes_back_in_time_claims_for_itself() {
    let mut host = Host::with(|options| options.recovery_time = LONG);
    let mut owner = host.owner(1);
    let (db, token) = owner.take_in(0, "db", EXCLUSIVE);
    owner.own(1, "idle", EXCLUSIVE);
    owner.take_in(2, "released", EXCLUSIVE);
    host.kill();
    host.begin();
    assert_eq!(owner.release(2), Released::Tell);
    let claims = [owner.claim(0)];
    assert_eq!(owner.come_back(&claims), []);
    let mut other = host.client(2);
    for name in ["idle", "released"] {
        other.take(name, TRY);
    }
    let asked = other.ask("db", EXCLUSIVE);
    assert!(other.waits());
    owner.slot(0).word().clear();
    owner.finish(db);
    assert!(other.granted(asked) > token);
}

#[test]
fn who_still_claims_at_the_end_of_a_recovery_is_hung_up_on_before_others_are_granted_its_locks() {
    let mut host = Host::with(|options| options.limits.handshake = 2 * LONG);
    let mut owner = host.owner(1);
    owner.take_in(0, "db", EXCLUSIVE);
    host.kill();
    host.begin();
    let hello = ToDaemon::Hello { oldest: VERSION, newest: VERSION };
    let introduce = ToDaemon::Introduce { client: [1; 16], returning: true };
    let mut slow = Raw::connect(&host.place(), &[hello, introduce]);
    host.client(2).take("db", TRY);
    assert!(owner.look(0).is_revoked() && !owner.path().exists());
    assert!(matches!(slow.receive(), FromDaemon::Welcome { .. }));
    assert_eq!(slow.stream.read(&mut [0; 8]).unwrap(), 0, "it is not hung up on");
}

#[test]
fn a_sleeper_whose_map_is_incomplete_is_given_up_and_holds_nothing_by_then() {
    let mut host = Host::start();
    let mut owner = host.owner(1);
    let (db, _) = owner.take_in(0, "db", EXCLUSIVE);
    owner.take("unmapped", EXCLUSIVE);
    owner.map.as_ref().unwrap().set_unmapped(1);
    let claims = [owner.claim(0)];
    host.kill();
    host.begin();
    let mut other = host.client(2);
    other.take("db", TRY);
    other.take("unmapped", TRY);
    assert!(owner.look(0).is_revoked());
    let path =
        owner.directory.join("sock.clients").join(format!("{:032x}", u128::from_be_bytes([1; 16])));
    assert!(!path.exists());
    let told = owner.come_back(&claims);
    assert_eq!(told, [FromDaemon::Lost { request: db, how: (Lost::Disconnected, None) }]);
}

#[test]
fn a_map_that_no_daemon_has_seen_says_nothing_of_what_is_not_in_it() {
    let mut host = Host::start();
    let mut client = host.client(1);
    client.take("db", EXCLUSIVE);
    client.map = Some(navlock_delegation::OwnerMap::make(&client.file).unwrap());
    host.kill();
    host.begin();
    host.client(2).take("db", TRY);
    assert!(!client.path().exists(), "it is not given up");
}

#[test]
fn a_sleeper_has_lost_a_lock_that_another_client_claims_by_a_later_grant() {
    let mut host = Host::with(|options| options.recovery_time = LONG);
    let (mut sleeper, mut later) = (host.owner(1), host.owner(2));
    sleeper.take_in(0, "db", EXCLUSIVE);
    let (stolen, _) = later.take_in(0, "db", navlock_core::host::RequestKind::Steal);
    // As if the daemon had been killed before it could show the theft in the victim's map.
    let claims = [later.claim(0)];
    host.kill();
    let word = navlock_delegation::Look::from_bits(0b11 | 1 << 5).bits().to_ne_bytes();
    std::os::unix::fs::FileExt::write_all_at(&sleeper.file, &word, 256).unwrap();
    assert!(sleeper.look(0).is_held());
    host.options.recovery_time = Duration::from_millis(300);
    host.begin();
    assert_eq!(later.come_back(&claims), []);
    assert!(!sleeper.look(0).is_held());
    later.slot(0).word().clear();
    later.finish(stolen);
    host.client(3).take("db", EXCLUSIVE);
}

#[test]
fn a_map_of_noise_is_none_for_the_next_daemon() {
    let mut host = Host::start();
    let mut owners = [1, 2, 3].map(|number| host.owner(number));
    for (owner, name) in owners.iter_mut().zip(["1", "2", "3"]) {
        owner.take_in(0, name, EXCLUSIVE);
    }
    host.kill();
    let noise = vec![0x5B; 16_384];
    std::os::unix::fs::FileExt::write_all_at(&owners[0].file, &noise, 0).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&owners[1].file, &noise[256..], 256).unwrap();
    owners[2].file.set_len(4096).unwrap();
    host.begin();
    let mut other = host.client(4);
    for name in ["1", "2", "3"] {
        let asked = other.ask(name, TRY);
        assert!(matches!(
            other.raw.receive(),
            FromDaemon::Granted { request, .. } | FromDaemon::Unavailable { request } if request == asked
        ));
    }
    let mut last = host.owner(5);
    last.own(0, "well", EXCLUSIVE);
    other.take("well", TRY);
}

#[test]
fn tokens_grow_over_daemons_and_takes_between_them() {
    let mut host = Host::start();
    let mut owner = host.owner(1);
    let mut last = owner.take_in(0, "db", EXCLUSIVE).1;
    for round in 2..5_u8 {
        assert_eq!(owner.release(0), Released::Kept);
        host.kill();
        for _ in 0..100 {
            let token = owner.retake(0).unwrap();
            assert!(token > last);
            last = token;
            assert_eq!(owner.release(0), Released::Kept);
        }
        drop(owner);
        host.begin();
        owner = host.owner(round);
        let (_, token) = owner.take_in(0, "db", EXCLUSIVE);
        assert!(token > last);
        last = token;
    }
}

#[test]
fn tokens_grow_over_what_readers_took_without_a_daemon_by_a_clock_that_was_ahead() {
    const HOUR: u64 = 3_600_000_000_000;
    for is_killed in [false, true] {
        let mut host = Host::start();
        let mut owner = host.owner(1);
        owner.own(0, "db", SHARED);
        host.kill();
        // The client takes tokens by the clock of its daemon, which was ahead of the next daemon's clock.
        let slot = owner.slot(0);
        slot.rebase(slot.token(0), slot.token(0) + HOUR);
        let last = owner.retake(0).unwrap();
        assert_eq!(owner.release(0), Released::Kept);
        let owner = (!is_killed).then_some(owner);
        host.begin();
        assert!(host.client(2).take("db", EXCLUSIVE).1 > last);
        // The same holds for all later daemons.
        drop(owner);
        host.kill();
        host.begin();
        assert!(host.client(3).take("db", EXCLUSIVE).1 > last);
    }
}

#[test]
fn a_client_that_goes_before_its_claims_are_settled_holds_nothing() {
    let mut host = Host::with(|options| options.recovery_time = Duration::from_secs(2));
    let (mut owner, other) = (host.owner(1), host.owner(2));
    owner.take_in(0, "db", EXCLUSIVE);
    host.kill();
    host.begin();
    // The daemon waits for the other client, while this one sends a message that no client sends.
    let words = [
        ToDaemon::Hello { oldest: VERSION, newest: VERSION },
        ToDaemon::Introduce { client: [1; 16], returning: true },
        ToDaemon::CloseAgent { agent: 9 },
    ];
    let mut raw = crate::raw::Raw::connect(&host.place(), &words);
    assert_eq!(raw.receive(), FromDaemon::Welcome { version: VERSION, reach: None });
    // A daemon looks at sleepers every few seconds.
    eventually("it is revoked", || owner.look(0).is_revoked());
    drop(other);
    host.client(3).take("db", TRY);
}

#[test]
fn a_slot_of_nobodys_request_is_no_claim() {
    let mut host = Host::start();
    let mut owner = host.owner(1);
    owner.take_in(0, "db", EXCLUSIVE);
    // Two slots with the same request, one of them with the agent of another client.
    let name = "two".try_into().unwrap();
    let request = RequestId::from_parts(1, 1);
    for (slot, client_id) in [(1, [1; 16]), (2, [7; 16])] {
        let mode = EXCLUSIVE.mode();
        assert!(owner.slot(slot).describe("app", &name, mode, 0, client_id, request));
        assert_eq!(owner.slot(slot).word().grant(false), Some(1));
    }
    host.kill();
    host.begin();
    let mut other = host.client(2);
    assert_eq!(other.query().0.len(), 1);
    assert!(owner.look(0).is_held() || owner.look(1).is_held());
    drop(owner);
    for name in ["db", "two"] {
        other.take(name, EXCLUSIVE);
    }
}

#[test]
fn a_looker_during_a_takeover_is_told_once_the_holders_are_known() {
    let mut host = Host::with(|options| options.recovery_time = Duration::from_secs(1));
    let mut owner = host.owner(1);
    let (_, token) = owner.take_in(0, "db", EXCLUSIVE);
    host.kill();
    host.begin();
    let overview = Look::once(host.place(), LookOptions::default()).unwrap();
    let [queue] = &overview.queues.values().collect::<Vec<_>>()[..] else { panic!("{overview:?}") };
    assert_eq!(queue.held[0].token, Some(token));
}

#[test]
fn a_looker_between_two_daemons_waits_for_the_next_one_as_clients_do() {
    let mut host = Host::start();
    let mut owner = host.owner(1);
    owner.take_in(0, "db", EXCLUSIVE);
    host.kill();
    let mut look = Look::new(host.place(), LookOptions::default());
    assert_eq!(look.next(Some(Duration::ZERO)).unwrap(), None);
    host.begin();
    assert_eq!(look.next(Some(LONG)).unwrap(), Some(News::Anew { missed: 0 }));
    assert_eq!(look.overview().queues.len(), 1);
}

#[test]
fn where_no_client_would_start_another_daemon_nobody_holds_anything() {
    let mut host = Host::start();
    let mut owner = host.owner(1);
    owner.take_in(0, "db", EXCLUSIVE);
    host.kill();
    let path = owner.path();
    drop(owner);
    let mut look = Look::new(host.place(), LookOptions::default());
    assert_eq!(look.next(Some(Duration::ZERO)).unwrap(), Some(News::NoBroker));
    // A looker removes no files.
    assert!(path.exists());
}

#[test]
fn a_client_that_is_coming_back_when_the_broker_ends_comes_back_to_the_next_one() {
    let mut host = Host::with(|options| options.recovery_time = LONG);
    let (mut one, stopped) = (host.client(1), host.client(2));
    let request = one.ask("db", EXCLUSIVE);
    let (token, _) = one.raw.receive_until(|message| match message {
        FromDaemon::Granted { token, .. } => Some(*token),
        _ => None,
    });
    let (name, mode) = ("db".try_into().unwrap(), Mode::Exclusive);
    let claim = ToDaemon::ClaimLock { agent: 0, request, name, mode, token, since: 0 };
    let words = [
        ToDaemon::Hello { oldest: VERSION, newest: VERSION },
        ToDaemon::Introduce { client: [1; 16], returning: true },
        ToDaemon::OpenAgent { agent: 0, client_id: [1; 16], bucket: "app".to_owned() },
        claim.clone(),
        ToDaemon::Claimed,
    ];
    // This one waits for the other client, until it is told to end.
    host.kill();
    host.begin();
    let _comes_back = Raw::connect(&host.place(), &words);
    eventually("it is coming back", || host.clients() == 1);
    host.kill();
    assert!(one.path().exists(), "the client was given up");
    drop(stopped.file);
    host.begin();
    assert_eq!(one.come_back(&[claim]), []);
    let mut other = host.client(3);
    other.ask("db", TRY);
    assert!(matches!(other.all_said()[..], [FromDaemon::Unavailable { .. }]));
}
