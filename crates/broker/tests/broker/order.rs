//! In which order the daemon acts, and whom it tells first.

use std::io::{ErrorKind, Read, Write};

use bytes::BytesMut;
use navlock_core::{Lost, Mode, ResourceName, host::RequestKind};
use navlock_engine::RequestId;
use navlock_platform::clock;
use navlock_wire::{Failure, FromDaemon, Sent, ToDaemon, VERSION, decode, encode};

use crate::{
    daemon::{Daemon, LONG, soon},
    raw::Raw,
};

const ROUNDS: u8 = 100;

/// What a client says first: it opens an agent in `app`.
fn introduction(key: u8) -> Vec<ToDaemon> {
    vec![
        ToDaemon::Hello { oldest: VERSION, newest: VERSION },
        ToDaemon::Introduce { client: [key; 16], returning: false },
        ToDaemon::OpenAgent { agent: 0, client_id: [key; 16], bucket: "app".to_owned() },
    ]
}

fn ask(serial: u64, name: &str, kind: RequestKind) -> ToDaemon {
    let (request, name) = (RequestId::from_parts(0, serial), name.try_into().unwrap());
    ToDaemon::Request { agent: 0, request, name, kind, slot: None }
}

fn is_granted(message: &FromDaemon) -> Option<()> {
    matches!(message, FromDaemon::Granted { .. }).then_some(())
}

#[test]
fn a_victim_is_told_before_a_thief_that_has_just_come() {
    let daemon = Daemon::start();
    for round in 0..ROUNDS {
        let mut victim = Raw::connect(&daemon.place(), &introduction(2 * round + 1));
        victim.say(&[ask(0, "db", RequestKind::Wait(Mode::Exclusive))]);
        victim.receive_until(is_granted);
        let mut theft = introduction(2 * round + 2);
        theft.push(ask(0, "db", RequestKind::Steal));
        let mut thief = Raw::connect(&daemon.place(), &theft);
        thief.receive_until(is_granted);
        // What the victim was sent is in its socket already.
        victim.stream.set_nonblocking(true).unwrap();
        let (mut bytes, mut read) = (BytesMut::new(), [0; 512]);
        match victim.stream.read(&mut read) {
            Ok(length) => bytes.extend_from_slice(&read[..length]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        let told = decode::<FromDaemon>(&mut bytes).unwrap();
        assert!(matches!(told, Some(FromDaemon::Lost { .. })), "round {round}: {told:?}");
    }
}

#[test]
fn who_is_robbed_before_it_was_told_of_its_grant_is_told_that_it_was_stolen_from() {
    let daemon = Daemon::start();
    let wait = RequestKind::Wait(Mode::Exclusive);
    let mut holder = Raw::connect(&daemon.place(), &introduction(1));
    holder.say(&[ask(0, "db", wait)]);
    holder.receive_until(is_granted);
    let mut waiter = Raw::connect(&daemon.place(), &introduction(2));
    waiter.say(&[ask(0, "db", wait), ToDaemon::Status { query: 0 }]);
    waiter.receive_until(|message| matches!(message, FromDaemon::Status { .. }).then_some(()));
    // In one piece, behind a message that may have a turn of its own, so that the daemon acts on both in one turn.
    let request = RequestId::from_parts(0, 0);
    let first = ToDaemon::Status { query: 0 };
    holder.say(&[first, ToDaemon::Finish { request }, ask(1, "db", RequestKind::Steal)]);
    holder.receive_until(is_granted);
    let told = waiter.receive();
    let failure = Failure::Lost(Lost::Stolen);
    assert_eq!(told, FromDaemon::Failed { request, failure });
}

#[test]
fn a_question_sees_what_its_client_has_said_before_it_and_nothing_of_what_comes_after() {
    let daemon = Daemon::start();
    let mut asker = Raw::connect(&daemon.place(), &introduction(1));
    for round in 0..u64::from(ROUNDS) {
        let kind = RequestKind::Wait(Mode::Exclusive);
        let (before, after) = (2 * round, 2 * round + 1);
        asker.say(&[
            ask(before, "before", kind),
            ToDaemon::Query { query: round, bucket: "app".into() },
            ask(after, "after", kind),
            ToDaemon::Finish { request: RequestId::from_parts(0, before) },
            ToDaemon::Finish { request: RequestId::from_parts(0, after) },
        ]);
        let (held, _) = asker.receive_until(|message| match message {
            FromDaemon::Snapshot { held, .. } => Some(held.clone()),
            _ => None,
        });
        let names: Vec<_> = held.iter().map(|lock| lock.name.to_string_lossy()).collect();
        assert_eq!(names, ["before"], "round {round}");
    }
}

#[test]
fn who_asks_and_does_not_read_keeps_nobody_waiting_and_is_hung_up_on() {
    let daemon = Daemon::start();
    let locks = daemon.locks();
    let held: Vec<_> = (0..1000)
        .map(|number| {
            let name: ResourceName = format!("name {number}").try_into().unwrap();
            soon(locks.lock(name)).unwrap()
        })
        .collect();
    let mut asker = Raw::connect(&daemon.place(), &introduction(1));
    asker.stream.set_write_timeout(Some(LONG)).unwrap();
    let mut bytes = BytesMut::new();
    for query in 0..1000 {
        let message = &ToDaemon::Query { query, bucket: "app".into() };
        encode(&Sent { at: clock::monotonic(), message }, &mut bytes).unwrap();
    }
    let mut rounds = 0;
    while asker.stream.write_all(&bytes).is_ok() {
        rounds += 1;
        assert!(rounds < 1000, "it may ask for ever");
        if rounds % 10 == 0 {
            assert_eq!(soon(locks.query()).unwrap().held.len(), held.len());
        }
    }
}
