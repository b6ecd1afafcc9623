//! The messages on a connection, and those that are not allowed.

mod versions;

use std::{
    fs,
    future::IntoFuture,
    io::{ErrorKind, Read, Write},
    pin::pin,
    thread,
};

use bytes::BytesMut;
use navlock_broker::{BrokerReach, ConnectOptions, Control, Place};
use navlock_core::{Error, Mode, UserAgent, host::RequestKind};
use navlock_engine::RequestId;
use navlock_platform::socket::Listener;
use navlock_wire::{FromDaemon, ToDaemon, VERSION, encode};

use self::versions::ask_for_db;
use crate::{
    daemon::{Daemon, LONG, eventually, queue, soon},
    raw::{Raw, RawDaemon},
};

#[test]
fn nothing_is_granted_to_a_client_that_is_gone() {
    let daemon = Daemon::start();
    let locks = daemon.locks();
    let mut dying = Raw::connect(&daemon.place(), &ask_for_db());
    let (granted, _) = dying.receive_until(|message| match message {
        FromDaemon::Granted { token, .. } => Some(*token),
        _ => None,
    });
    // More agents of the same client wait for what the first one holds.
    for agent in 1..=8_u8 {
        dying.say(&[
            ToDaemon::OpenAgent {
                agent: agent.into(),
                client_id: [agent; 16],
                bucket: "app".to_owned(),
            },
            ToDaemon::Request {
                agent: agent.into(),
                request: RequestId::from_parts(agent.into(), agent.into()),
                name: "db".try_into().unwrap(),
                kind: RequestKind::Wait(Mode::Exclusive),
                slot: None,
            },
        ]);
    }
    eventually("its requests are made", || soon(locks.query()).unwrap().pending.len() == 8);
    let mut waiting = pin!(locks.lock("db").into_future());
    queue(&locks, "db", waiting.as_mut());
    drop(dying);
    // Tokens count grants, and this is the next one.
    assert_eq!(soon(waiting).unwrap().fencing_token().get(), granted.get() + 1);
}

#[test]
fn a_client_that_is_gone_holds_nothing() {
    let daemon = Daemon::start();
    let locks = daemon.locks();
    let mut gone = Raw::connect(&daemon.place(), &ask_for_db());
    gone.receive_until(|message| matches!(message, FromDaemon::Granted { .. }).then_some(()));
    let mut waiting = pin!(locks.lock("db").into_future());
    queue(&locks, "db", waiting.as_mut());
    drop(gone);
    drop(soon(waiting).unwrap());
}

#[test]
fn a_client_that_goes_without_hearing_all_that_it_was_told_has_ended_as_clients_do() {
    let daemon = Daemon::start();
    let locks = daemon.locks();
    let mut leaving = Raw::connect(&daemon.place(), &ask_for_db());
    leaving.receive_until(|message| matches!(message, FromDaemon::Granted { .. }).then_some(()));
    leaving.say(&[
        ToDaemon::OpenAgent { agent: 1, client_id: [1; 16], bucket: "app".to_owned() },
        ToDaemon::Request {
            agent: 1,
            request: RequestId::from_parts(1, 1),
            name: "unheard".try_into().unwrap(),
            kind: RequestKind::Wait(Mode::Exclusive),
            slot: None,
        },
    ]);
    eventually("it is granted", || {
        let held = soon(locks.query()).unwrap().held;
        held.iter().any(|lock| lock.name.as_str() == Some("unheard"))
    });
    // A socket that is closed with something unread in it is reset, and not closed, for the other end.
    drop(leaving);
    let mut control = Control::connect(&daemon.place()).unwrap();
    eventually("its session ends", || !control.status().unwrap().ends.is_empty());
    let status = control.status().unwrap();
    assert!(status.ends[0].why.contains("closed its connection"), "{:?}", status.ends);
    assert_eq!(status.numbers.sessions_ended_badly, 0);
}

#[test]
fn a_client_that_does_not_introduce_itself_is_hung_up_on() {
    let daemon = Daemon::start();
    let [hello, _, open, ask] = ask_for_db();
    let mut raw = Raw::connect(&daemon.place(), &[hello, open, ask]);
    assert_eq!(raw.receive(), FromDaemon::Welcome { version: VERSION, reach: None });
    match raw.stream.read(&mut [0; 64]) {
        Ok(length) => assert_eq!(length, 0),
        // The connection is reset if the daemon has not read all that was sent.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

#[test]
fn a_client_that_keeps_asking_without_an_introduction_is_disconnected() {
    let daemon = Daemon::start();
    let hello = ToDaemon::Hello { oldest: VERSION, newest: VERSION };
    let ask = (0..100).map(|query| ToDaemon::Status { query });
    let asked: Vec<_> = [hello].into_iter().chain(ask).collect();
    let mut raw = Raw::connect(&daemon.place(), &asked);
    assert_eq!(raw.receive(), FromDaemon::Welcome { version: VERSION, reach: None });
    for asked in 0..64 {
        let answer = raw.receive();
        assert!(matches!(answer, FromDaemon::Status { query, .. } if query == asked), "{answer:?}");
    }
    assert_eq!(raw.stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_connection_that_makes_no_sense_is_closed_for_the_other_end_too() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let listener = Listener::bind(place.socket()).unwrap();
    let daemon = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut bytes = BytesMut::new();
        let welcome = FromDaemon::Welcome { version: VERSION, reach: None };
        encode(&welcome, &mut bytes).unwrap();
        bytes.extend_from_slice(&[0, 0, 0, 1, 99]);
        stream.write_all(&bytes).unwrap();
        // Reads to the end, which comes although the client still has the connection.
        stream.read_to_end(&mut Vec::new()).map(drop)
    });
    let options = ConnectOptions::default().place(place).program("/nonexistent");
    let reach = soon(BrokerReach::connect(options)).unwrap();
    daemon.join().unwrap().unwrap();
    drop(reach);
}

#[test]
fn where_somebody_stands_is_told_in_few_bytes_however_long_the_queue_is() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let holder = client.lock_manager("app");
    let held = soon(holder.lock("db")).unwrap();
    let waiters: Vec<_> = (0..100).map(|_| client.lock_manager("app")).collect();
    let mut waiting = Vec::new();
    for locks in &waiters {
        let mut request = Box::pin(locks.lock("db").into_future());
        queue(locks, "db", request.as_mut());
        waiting.push(request);
    }
    let last = waiters.last().unwrap().client_id();
    let mut raw = Raw::connect(
        &daemon.place(),
        &[
            ToDaemon::Hello { oldest: VERSION, newest: VERSION },
            ToDaemon::Introduce { client: [9; 16], returning: false },
            ToDaemon::Position {
                query: 1,
                bucket: "app".into(),
                name: "db".try_into().unwrap(),
                client_id: last.to_bytes(),
            },
        ],
    );
    let (position, _) = raw.receive_until(|message| {
        matches!(message, FromDaemon::Position { .. }).then(|| message.clone())
    });
    let mut bytes = BytesMut::new();
    encode(&position, &mut bytes).unwrap();
    // Four texts of an agent at most, and no entry of the queue.
    assert!(bytes.len() < 2200, "{} bytes", bytes.len());
    let FromDaemon::Position { position, .. } = position else { panic!("{position:?}") };
    assert_eq!((position.holders, position.ahead), (1, Some(99)));
    let first = position.holder.unwrap();
    assert_eq!(first.lock.client_id, holder.client_id());
    assert!(first.age.is_some() && first.fencing_token == Some(held.fencing_token()));
    assert_eq!(first.agent.unwrap().pid, std::process::id());
    // The same through the API. An agent that does not wait has no place.
    let position = soon(waiters[3].position("db".try_into().unwrap())).unwrap();
    assert_eq!((position.holders, position.ahead), (1, Some(3)));
    let position = soon(holder.position("db".try_into().unwrap())).unwrap();
    assert_eq!((position.holders, position.ahead), (1, None));
    let position = soon(holder.position("free".try_into().unwrap())).unwrap();
    assert_eq!((position.holder, position.holders, position.ahead), (None, 0, None));
}

#[test]
fn a_connection_for_questions_leaves_no_file_and_gets_no_locks() {
    let daemon = Daemon::start();
    let options = ConnectOptions::default().place(daemon.place()).only_running().only_questions();
    let reach = soon(BrokerReach::connect(options)).unwrap();
    let locks = UserAgent::with_reach(reach).lock_manager("app");
    assert!(soon(locks.query()).unwrap().held.is_empty());
    let clients = daemon.place().socket().with_extension("clients");
    assert!(fs::read_dir(clients).unwrap().next().is_none());
    let refused = soon(locks.lock("db")).unwrap_err();
    assert!(
        matches!(&refused, Error::Refused(why) if why.message().contains("questions only")),
        "{refused}"
    );
}
