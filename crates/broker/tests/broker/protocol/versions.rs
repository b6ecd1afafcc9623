//! Clients and daemons that speak an older or a later version.

use super::*;

/// The messages by which a client asks for `db`.
pub(super) fn ask_for_db() -> [ToDaemon; 4] {
    [
        ToDaemon::Hello { oldest: VERSION, newest: VERSION },
        ToDaemon::Introduce { client: [1; 16], returning: false },
        ToDaemon::OpenAgent { agent: 0, client_id: [1; 16], bucket: "app".to_owned() },
        ToDaemon::Request {
            agent: 0,
            request: RequestId::from_parts(0, 0),
            name: "db".try_into().unwrap(),
            kind: RequestKind::Wait(Mode::Exclusive),
            slot: None,
        },
    ]
}

#[test]
fn a_daemon_of_no_common_version_is_told_of_in_its_own_words() {
    for (answer, told) in [
        (
            FromDaemon::Refused { reason: "it speaks versions 8 to 9 of the protocol".to_owned() },
            "it refused: it speaks versions 8 to 9 of the protocol",
        ),
        // The client says which versions it speaks, so a daemon answers with no other version.
        (
            FromDaemon::Welcome { version: 0, reach: None },
            "the program that answers there is no navlock broker",
        ),
        (
            FromDaemon::Welcome { version: VERSION + 1, reach: None },
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
        FromDaemon::Welcome { version: VERSION, reach: None }
    );
    let hello = ToDaemon::Hello { oldest: VERSION + 1, newest: VERSION + 7 };
    let refused = Raw::connect(&daemon.place(), &[hello]).receive();
    let FromDaemon::Refused { reason } = refused else { panic!("{refused:?}") };
    assert!(reason.contains(&format!("version {VERSION} of")), "{reason}");
}
