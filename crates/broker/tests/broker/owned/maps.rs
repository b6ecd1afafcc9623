//! The locks in a client's map, and when a client makes no map or gives it up.

use super::*;

#[test]
fn a_request_without_a_slot_is_counted_in_the_map() {
    let mut played = Played::owning(&["db"]);
    let unmapped = |played: &Played| played.broker.map.as_ref().unwrap().unmapped();
    assert_eq!(unmapped(&played), 0);
    let long = "n".repeat(500);
    let mut request = Box::pin(played.locks.lock(long.as_str()).into_future());
    assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // Counted before the lock is granted, because the client may never hear of the grant.
    assert_eq!(unmapped(&played), 1);
    let ToDaemon::Request { request: id, .. } = played.broker.raw.receive() else { panic!() };
    let token = FencingToken::new(500);
    played.broker.raw.say(&[FromDaemon::Granted { request: id, token, in_slot: false }]);
    let guard = soon(request).unwrap();
    assert_eq!(unmapped(&played), 1);
    drop(guard);
    assert_eq!(unmapped(&played), 0);
}

#[test]
fn a_client_whose_file_was_removed_owns_nothing_any_more() {
    let mut played = Played::owning(&["held", "idle"]);
    let held = soon(played.locks.lock("held")).unwrap();
    fs::remove_file(&played.broker.file).unwrap();
    played.broker.raw.say(&[FromDaemon::Register]);
    let finished = |request| ToDaemon::Finish { request };
    assert_eq!(played.broker.raw.receive(), finished(played.broker.granted[1].0));
    assert_eq!(played.reach.owned(), 0);
    assert!(!held.is_lost());
    drop(held);
    assert_eq!(played.broker.raw.receive(), finished(played.broker.granted[0].0));
    eventually("it has a file", || played.broker.file.exists());
    // From here on the client asks the daemon for each lock on this connection.
    assert!(!has_at_once(&played.locks, "idle"));
    assert!(matches!(played.broker.raw.receive(), ToDaemon::Request { .. }));
}

#[test]
fn there_is_no_new_map_while_something_is_held_in_an_old_one() {
    let Played { locks, reach, mut broker, listener, directory } = Played::owning(&["held"]);
    let place = Place::at(directory.path().join("sock"));
    let held = soon(locks.lock("held")).unwrap();
    fs::remove_file(&broker.file).unwrap();
    broker.raw.say(&[FromDaemon::Register]);
    eventually("it has a file", || broker.file.exists());
    drop(broker);
    let mut broker = PlayedBroker::welcome(&listener, &place, VERSION);
    let mut served = |locks: &LockManager, ask: &dyn Fn()| {
        thread::scope(|scope| {
            let serving = scope.spawn(|| broker.serve());
            ask();
            end_turn(locks);
            serving.join().unwrap()
        })
    };
    let heard = served(&locks, &|| {
        for _ in 0..200 {
            drop(soon(locks.lock("other")).unwrap());
        }
    });
    // A new map would not contain the lock that is held, and a later daemon would go by the map.
    let is_map = |said: &ToDaemon| matches!(said, ToDaemon::Map { .. });
    assert!(!heard.iter().any(is_map));
    assert!(!held.is_lost());
    drop(held);
    let heard = served(&locks, &|| own(&reach, &locks, "other", Mode::Exclusive));
    assert!(heard.iter().any(is_map));
}

#[test]
fn a_name_to_be_inherited_is_not_owned() {
    let mut played = Played::owning(&["idle"]);
    let _prepared = played.reach.prepare_lifeline(&["db".try_into().unwrap()]).unwrap();
    let request = played.broker.granted[0].0;
    assert_eq!(played.broker.raw.receive(), ToDaemon::Finish { request });
    assert!(!has_at_once(&played.locks, "idle"));
    assert!(matches!(played.broker.raw.receive(), ToDaemon::Request { .. }));
}

#[test]
fn a_client_without_delegation_owns_nothing_and_makes_no_map() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let listener = Listener::bind(place.socket()).unwrap();
    thread::scope(|scope| {
        let broker = scope.spawn(|| {
            let mut broker = PlayedBroker::welcome(&listener, &place, VERSION);
            let heard = broker.serve();
            (broker, heard)
        });
        let options = ConnectOptions::default().place(place.clone()).delegate(false);
        let reach = soon(BrokerReach::connect(options.program("/nonexistent"))).unwrap();
        let locks = lock_manager(&reach);
        for _ in 0..20 {
            drop(soon(locks.lock("db")).unwrap());
        }
        end_turn(&locks);
        let (broker, heard) = broker.join().unwrap();
        let asked = heard.iter().filter(|said| matches!(said, ToDaemon::Request { .. })).count();
        assert_eq!(asked, 20);
        assert!(!heard.iter().any(|said| matches!(said, ToDaemon::Map { .. })));
        let file = fs::File::options().read(true).write(true).open(&broker.file).unwrap();
        assert!(BrokerMap::open(&file).unwrap().is_none());
    });
}

#[test]
fn a_daemon_that_maps_nothing_is_told_what_is_held_and_nothing_of_what_was_owned() {
    let played = Played::owning(&["held", "idle"]);
    let held = soon(played.locks.lock("held")).unwrap();
    let place = played.place();
    let (held_id, _) = played.broker.granted[0];
    let token = held.fencing_token();
    drop(played.broker);
    let mut broker = PlayedBroker::welcome(&played.listener, &place, VERSION);
    let (claimed, before) =
        broker.raw.receive_until(|message| matches!(message, ToDaemon::Claimed).then_some(()));
    let () = claimed;
    let claims: Vec<_> = before
        .iter()
        .filter_map(|message| match message {
            ToDaemon::ClaimLock { request, name, token, .. } => Some((*request, name, *token)),
            _ => None,
        })
        .collect();
    assert_eq!(claims, [(held_id, held.name(), token)]);
    assert!(!held.is_lost());
    drop(held);
    let is_finish = |message: &ToDaemon| *message == ToDaemon::Finish { request: held_id };
    broker.raw.receive_until(|message| is_finish(message).then_some(()));
    for name in ["idle", "held"] {
        assert!(!has_at_once(&played.locks, name));
        let asked = broker.raw.receive();
        assert!(matches!(asked, ToDaemon::Request { .. }), "{asked:?}");
        assert!(matches!(broker.raw.receive(), ToDaemon::Finish { .. }));
    }
}
