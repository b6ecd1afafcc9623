//! Clients that send messages and receive none: their end of the connection is shut down in one
//! direction, which only sockets allow.

use std::{future::IntoFuture, io::Write, net::Shutdown, pin::pin, thread};

use bytes::BytesMut;
use navlock_core::{Mode, host::RequestKind};
use navlock_engine::RequestId;
use navlock_wire::{FromDaemon, Sent, ToDaemon, VERSION, encode};

use crate::{
    daemon::{Daemon, LONG, queue, soon},
    raw::Raw,
};

/// Introduces itself and opens an agent in `app`.
fn newcomer(daemon: &Daemon, key: u8) -> Raw {
    let mut raw = Raw::connect(
        &daemon.place(),
        &[
            ToDaemon::Hello { oldest: VERSION, newest: VERSION },
            ToDaemon::Introduce { client: [key; 16], returning: false },
            ToDaemon::OpenAgent { agent: 0, client_id: [key; 16], bucket: "app".to_owned() },
        ],
    );
    raw.receive_until(|message| matches!(message, FromDaemon::Settled).then_some(()));
    raw
}

fn ask(serial: u64, name: &str, kind: RequestKind) -> ToDaemon {
    let (request, name) = (RequestId::from_parts(0, serial), name.try_into().unwrap());
    ToDaemon::Request { agent: 0, request, name, kind, slot: None }
}

#[test]
fn a_client_that_nothing_can_be_said_to_ends_also_if_it_lives() {
    let daemon = Daemon::start();
    let locks = daemon.locks();
    let mut mute = newcomer(&daemon, 7);
    mute.say(&[ask(0, "db", RequestKind::Wait(Mode::Exclusive))]);
    mute.receive_until(|message| matches!(message, FromDaemon::Granted { .. }).then_some(()));
    let mut waiting = pin!(locks.lock("db").into_future());
    queue(&locks, "db", waiting.as_mut());
    mute.stream.shutdown(Shutdown::Read).unwrap();
    mute.say(&[ToDaemon::Status { query: 0 }]);
    drop(soon(waiting).unwrap());
}

#[test]
fn a_client_that_cannot_hear_of_a_grant_is_granted_nothing() {
    let daemon = Daemon::start();
    let locks = daemon.locks();
    let held = soon(locks.lock("db")).unwrap();
    let mut mute = newcomer(&daemon, 7);
    mute.stream.shutdown(Shutdown::Read).unwrap();
    let mut said: Vec<_> = (0..1000).map(|query| ToDaemon::Status { query }).collect();
    said.push(ask(0, "db", RequestKind::Steal));
    mute.say(&said);
    // Writes until that fails: then the session has ended, and the connection with it.
    mute.stream.set_write_timeout(Some(LONG)).unwrap();
    let query = ToDaemon::Status { query: 0 };
    let mut bytes = BytesMut::new();
    encode(&Sent { at: 0, message: &query }, &mut bytes).unwrap();
    while mute.stream.write_all(&bytes).is_ok() {
        thread::yield_now();
    }
    assert!(!soon(locks.query()).unwrap().held.is_empty());
    assert!(!held.is_lost());
}
