//! Lookers of brokers that end, do not answer, or have no room for one more looker.

use super::*;

#[test]
fn a_new_broker_is_looked_at_when_the_one_before_has_ended() {
    let mut daemon = Daemon::start();
    let mut look = begin(&daemon, LookOptions::default());
    let locks = daemon.locks();
    let held = soon(locks.lock("db")).unwrap();
    until(&mut look, |seen| !is_empty(seen));
    daemon.stop();
    let end = loop {
        match look.next(Some(LONG)).unwrap() {
            // The ends of clients and locks, when the broker ends.
            Some(News::Events(_)) => {}
            other => break other,
        }
    };
    assert_eq!(end, Some(News::NoBroker));
    assert!(is_empty(look.overview()));
    daemon.restart();
    assert_eq!(look.next(Some(LONG)).unwrap(), Some(News::Anew { missed: 0 }));
    drop(held);
    let _guard = soon(daemon.locks().lock("again")).unwrap();
    let again = LockName::new("app", "again".try_into().unwrap());
    until(&mut look, |seen| {
        seen.queues.get(&again).is_some_and(|queue| queue.held[0].mode == Mode::Exclusive)
    });
}

#[test]
fn a_broker_that_does_not_answer_is_waited_for_no_longer_than_was_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sock");
    // A broker that accepts connections, and sends nothing.
    let listener = Listener::bind(&path).unwrap();
    let mut look = Look::new(Place::at(&path), LookOptions::default());
    let mut late = 0;
    let error = loop {
        match look.next(Some(Duration::from_millis(20))) {
            Ok(None) => late += 1,
            Ok(Some(news)) => panic!("{news:?}"),
            Err(error) => break error,
        }
    };
    assert!(late > 0, "{error}");
    // All calls have waited for one and the same connection.
    assert!(matches!(error.reason(), Reason::Silent(_)), "{error:?}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_ok());
    assert!(listener.accept().is_err());
}

#[test]
fn a_looker_does_not_keep_a_broker_from_ending() {
    let daemon = Daemon::with(|options| options.idle = Some(Duration::from_secs(3)));
    let mut look = begin(&daemon, LookOptions::default());
    let deadline = Instant::now() + LONG;
    while look.next(Some(deadline.saturating_duration_since(Instant::now()))).unwrap()
        != Some(News::NoBroker)
    {
        assert!(Instant::now() < deadline, "it goes on for nobody");
    }
}

#[test]
fn so_many_can_look_and_one_more_is_told_so() {
    let daemon = Daemon::start();
    let looks: Vec<_> = (0..64).map(|_| begin(&daemon, LookOptions::default())).collect();
    let refused = Look::new(daemon.place(), LookOptions::default()).next(Some(LONG)).unwrap_err();
    assert!(matches!(refused.reason(), Reason::Refused(why) if why.starts_with("64 look at it")));
    // A looker that asks only once is answered.
    assert!(Look::once(daemon.place(), LookOptions::default()).is_ok());
    drop(looks);
    eventually("there is room again", || {
        Look::new(daemon.place(), LookOptions::default()).next(Some(LONG)).is_ok()
    });
}
