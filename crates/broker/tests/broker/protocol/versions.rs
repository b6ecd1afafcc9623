//! Clients and daemons that speak an older or a later version.

use super::*;

/// The messages by which a client of the first version asks for a lock.
pub(super) fn ask_as_version_1(newest: u16) -> [ToDaemon; 3] {
    [
        ToDaemon::Hello { oldest: 1, newest },
        ToDaemon::OpenAgent { agent: 0, client_id: [1; 16], bucket: "app".to_owned() },
        ToDaemon::Request {
            agent: 0,
            request: RequestId::from_parts(0, 0),
            name: "db".try_into().unwrap(),
            kind: RequestKind::Wait(Mode::Exclusive),
        },
    ]
}

/// A client of an old release, which asks for `db`.
fn ask_as(version: u16, daemon: &Daemon) -> Raw {
    let [hello, open, ask] = ask_as_version_1(version);
    let introduce = ToDaemon::Introduce { client: [1; 16], returning: false };
    let describe = ToDaemon::Describe { agent: 0, info: AgentInfo::default() };
    let mut old = match version {
        1 => Raw::connect(&daemon.place(), &[hello, open, ask]),
        _ => Raw::connect(&daemon.place(), &[hello, introduce, open, describe, ask]),
    };
    assert_eq!(old.receive(), FromDaemon::Welcome { version });
    if version > 1 {
        assert_eq!(old.receive(), FromDaemon::Settled);
    }
    old
}

/// The same client once it holds the lock.
fn hold_as(version: u16, daemon: &Daemon) -> Raw {
    let mut old = ask_as(version, daemon);
    assert!(matches!(old.receive(), FromDaemon::Granted { .. }));
    old
}

/// All versions before today's.
const OLD: std::ops::Range<u16> = OLDEST_VERSION..VERSION;

#[test]
fn an_old_client_is_served_and_when_it_is_gone_it_holds_nothing() {
    for version in OLD {
        let daemon = Daemon::start();
        let locks = daemon.locks();
        let old = hold_as(version, &daemon);
        let mut waiting = pin!(locks.lock("db").into_future());
        queue(&locks, "db", waiting.as_mut());
        drop(old);
        drop(soon(waiting).unwrap());
    }
}

#[test]
fn an_old_client_s_release_lets_one_of_today_in() {
    for version in OLD {
        let daemon = Daemon::start();
        let locks = daemon.locks();
        let mut old = hold_as(version, &daemon);
        let mut waiting = pin!(locks.lock("db").into_future());
        queue(&locks, "db", waiting.as_mut());
        old.say(&[ToDaemon::Finish { request: RequestId::from_parts(0, 0) }]);
        let held = soon(waiting).unwrap();
        // An old client can steal a lock, and is told when the lock is stolen from it.
        old.say(&[ToDaemon::Request {
            agent: 0,
            request: RequestId::from_parts(1, 1),
            name: "db".try_into().unwrap(),
            kind: RequestKind::Steal,
        }]);
        assert_eq!(soon(held.lost()), Lost::Stolen);
        drop(soon(locks.lock("db").steal()).unwrap());
        assert!(matches!(old.receive(), FromDaemon::Granted { .. }));
        let lost = match version {
            ..=3 => navlock_wire::Lost::Stolen,
            _ => navlock_wire::Lost::StolenBy(locks.client_id().to_bytes()),
        };
        let request = RequestId::from_parts(1, 1);
        assert_eq!(old.receive(), FromDaemon::Lost { request, how: lost });
    }
}

#[test]
fn an_old_client_waits_behind_one_of_today_and_one_of_today_behind_it() {
    for version in OLD {
        let daemon = Daemon::start();
        let (first, last) = (daemon.locks(), daemon.locks());
        let held = soon(first.lock("db")).unwrap();
        let pending = |number: usize| {
            eventually(&format!("{number} wait"), || {
                soon(first.query()).unwrap().pending.len() == number
            });
        };
        let gone = ask_as(version, &daemon);
        pending(1);
        let mut old = ask_as(version, &daemon);
        pending(2);
        let mut waiting = pin!(last.lock("db").into_future());
        queue(&last, "db", waiting.as_mut());
        // A client that is killed while it waits is in nobody's way.
        drop(gone);
        pending(2);
        drop(held);
        assert!(matches!(old.receive(), FromDaemon::Granted { .. }));
        assert_eq!(soon(last.query()).unwrap().pending.len(), 1);
        old.say(&[ToDaemon::CloseAgent { agent: 0 }]);
        drop(soon(waiting).unwrap());
    }
}

/// Serves a client of today as a daemon of this version, which grants all requests, until the client
/// has gone. Returns the client's messages.
fn serve_as(version: u16, listener: &Listener) -> Vec<ToDaemon> {
    let mut end = RawDaemon::new(listener.accept().unwrap().0);
    let mut heard = vec![end.receive()];
    end.say(&[FromDaemon::Welcome { version }]);
    loop {
        let message = end.receive();
        match message {
            ToDaemon::Request { request, .. } => {
                let token = FencingToken::new(7);
                end.say(&[FromDaemon::Granted { request, token }]);
            }
            ToDaemon::Inspect { query, .. } => end.say(&[FromDaemon::Inspection {
                query,
                agents: Vec::new(),
                held: Vec::new(),
                pending: Vec::new(),
                last: true,
            }]),
            ToDaemon::Query { query, .. } => end.say(&[FromDaemon::Snapshot {
                query,
                held: Vec::new(),
                pending: Vec::new(),
                last: true,
            }]),
            _ => {}
        }
        let is_last = matches!(message, ToDaemon::CloseAgent { .. });
        heard.push(message);
        if is_last {
            return heard;
        }
    }
}

#[test]
fn a_client_of_today_says_to_an_old_daemon_only_what_that_knows() {
    for version in 2..VERSION {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        let listener = Listener::bind(place.socket()).unwrap();
        let daemon = thread::spawn(move || serve_as(version, &listener));
        let options = ConnectOptions::default().place(place).program("/nonexistent");
        let reach = soon(BrokerReach::connect(options)).unwrap();
        let locks = UserAgent::with_reach(reach).lock_manager("app");
        let held = soon(locks.lock("db")).unwrap();
        soon(locks.query()).unwrap();
        soon(locks.inspect(None)).unwrap();
        drop(held);
        drop(locks);
        let heard = daemon.join().unwrap();
        assert_eq!(heard[0], ToDaemon::Hello { oldest: 2, newest: VERSION });
        let is_known = |message: &ToDaemon| {
            matches!(
                message,
                ToDaemon::Hello { .. }
                    | ToDaemon::Introduce { .. }
                    | ToDaemon::OpenAgent { .. }
                    | ToDaemon::Describe { .. }
                    | ToDaemon::Request { .. }
                    | ToDaemon::Finish { .. }
                    | ToDaemon::Query { .. }
                    | ToDaemon::Inspect { .. }
                    | ToDaemon::CloseAgent { .. }
            )
        };
        assert!(heard.iter().all(is_known), "{version}: {heard:?}");
    }
}

#[test]
fn a_daemon_of_no_common_version_is_told_of_in_its_own_words() {
    for (answer, told) in [
        (
            // In the words of a daemon of the first version.
            FromDaemon::Refused { reason: "it speaks versions 1 to 1 of the protocol".to_owned() },
            "it refused: it speaks versions 1 to 1 of the protocol",
        ),
        (
            FromDaemon::Refused { reason: "it speaks versions 8 to 9 of the protocol".to_owned() },
            "it refused: it speaks versions 8 to 9 of the protocol",
        ),
        // The client says which versions it speaks, so a daemon answers with no other version.
        (FromDaemon::Welcome { version: 1 }, "the program that answers there is no navlock broker"),
        (
            FromDaemon::Welcome { version: VERSION + 1 },
            "the program that answers there is no navlock broker",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        let listener = Listener::bind(place.socket()).unwrap();
        let daemon = thread::spawn(move || {
            let mut end = RawDaemon::new(listener.accept().unwrap().0);
            end.receive();
            end.say(&[answer]);
        });
        let options = ConnectOptions::default().place(place).program("/nonexistent");
        let error = soon(BrokerReach::connect(options)).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
        daemon.join().unwrap();
    }
}

#[test]
fn a_client_of_the_future_is_spoken_to_in_words_that_both_know() {
    let daemon = Daemon::start();
    let hello = ToDaemon::Hello { oldest: VERSION, newest: VERSION + 7 };
    assert_eq!(
        Raw::connect(&daemon.place(), &[hello]).receive(),
        FromDaemon::Welcome { version: VERSION }
    );
    let hello = ToDaemon::Hello { oldest: VERSION + 1, newest: VERSION + 7 };
    let refused = Raw::connect(&daemon.place(), &[hello]).receive();
    let FromDaemon::Refused { reason } = refused else { panic!("{refused:?}") };
    assert!(reason.contains(&format!("versions 1 to {VERSION}")), "{reason}");
}

#[test]
fn a_daemon_of_an_earlier_version_is_asked_for_the_whole_queue() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let listener = Listener::bind(place.socket()).unwrap();
    let daemon = thread::spawn(move || {
        let mut end = RawDaemon::new(listener.accept().unwrap().0);
        end.receive_until(|message| matches!(message, ToDaemon::Hello { .. }).then_some(()));
        end.say(&[FromDaemon::Welcome { version: 3 }]);
        let (query, _) = end.receive_until(|message| match message {
            ToDaemon::Inspect { query, .. } => Some(*query),
            ToDaemon::Position { .. } => panic!("it does not know that question"),
            _ => None,
        });
        let entry = SnapshotEntry {
            name: "db".try_into().unwrap(),
            mode: Mode::Shared,
            client_id: [3; 16],
        };
        let held = InspectionEntry { entry, age: None, token: None };
        let held = vec![held.clone(), held];
        let (agents, pending) = (Vec::new(), Vec::new());
        end.say(&[FromDaemon::Inspection { query, agents, held, pending, last: true }]);
        end
    });
    let options = ConnectOptions::default().place(place).only_running();
    let reach = soon(BrokerReach::connect(options)).unwrap();
    let locks = UserAgent::with_reach(reach).lock_manager("app");
    let position = soon(locks.position("db".try_into().unwrap())).unwrap();
    assert_eq!((position.holders, position.ahead), (2, None));
    drop(daemon.join().unwrap());
}
