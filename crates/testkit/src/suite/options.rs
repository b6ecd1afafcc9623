//! Rules 17 and 20: which options are refused, and in which order.

use std::time::Duration;

use navlock_core::{Error, LockManager, LockOptions, Mode, UserAgent};

use super::{HAS_THREADS, Waiting, agent, assert_nothing_is_left, exclusive, soon};

fn options(steal: bool, if_available: bool, mode: Mode, signal: bool) -> LockOptions {
    LockOptions { mode, if_available, steal, signal }
}

/// Rule 17: the first request breaks every check. Each further request repairs what the last error
/// named.
pub fn checks_come_in_the_order_of_the_specification(user_agent: &UserAgent) {
    let opaque = user_agent.opaque_bucket().lock_manager();
    opaque.set_fully_active(false);
    let all_wrong = options(true, true, Mode::Shared, true);
    let failure = |locks: &navlock_core::LockManager, name: &str, options| {
        soon(locks.lock_with(name, options)).unwrap_err()
    };
    let expect = |error: Error, expected: Error, dom_exception_name: &str| {
        assert_eq!(error, expected);
        assert_eq!(error.dom_exception_name(), dom_exception_name);
    };

    let error = failure(&opaque, "-", all_wrong);
    expect(error, Error::NotFullyActive, "InvalidStateError");
    assert_eq!(soon(opaque.query()), Err(Error::NotFullyActive));
    opaque.set_fully_active(true);

    expect(failure(&opaque, "-", all_wrong), Error::Unobtainable, "SecurityError");
    assert_eq!(soon(opaque.query()), Err(Error::Unobtainable));

    let locks = agent(user_agent);
    expect(failure(&locks, "-", all_wrong), Error::ReservedName, "NotSupportedError");
    expect(failure(&locks, "db", all_wrong), Error::StealIfAvailable, "NotSupportedError");
    let error = failure(&locks, "db", options(true, false, Mode::Shared, true));
    expect(error, Error::StealShared, "NotSupportedError");
    for (steal, if_available) in [(true, false), (false, true)] {
        let with_signal = options(steal, if_available, Mode::Exclusive, true);
        expect(
            failure(&locks, "db", with_signal),
            Error::SignalWithoutWaiting,
            "NotSupportedError",
        );
    }
    assert!(soon(locks.lock_with("db", options(false, false, Mode::Shared, true))).is_ok());

    locks.set_fully_active(false);
    assert_eq!(failure(&locks, "-", all_wrong), Error::NotFullyActive);
    assert_eq!(soon(locks.lock_all(["-"])).unwrap_err(), Error::NotFullyActive.into());
    locks.set_fully_active(true);
    drop(exclusive(&locks, "db"));
}

/// Rule 17: the same with the builder.
pub fn a_shared_lock_cannot_be_stolen(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let holder = exclusive(&locks, "db");
    assert_eq!(soon(locks.lock("db").shared().steal()).unwrap_err(), Error::StealShared);
    let both = locks.lock("db").if_available().steal();
    assert_eq!(soon(both).unwrap_err(), Error::StealIfAvailable);
    assert!(!holder.is_lost());
}

/// Several names: options that are refused for one of them take nothing from anybody.
pub fn options_of_several_names_are_checked_before_the_first_lock_is_taken(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let holder = exclusive(&locks, "a");
    let steal = options(true, false, Mode::Exclusive, false);
    let names = [("a", Mode::Exclusive), ("b", Mode::Shared)];
    let refused = soon(locks.lock_all_with(names).with_options(steal)).unwrap_err();
    assert_eq!(refused.error, Error::StealShared);
    assert_eq!(refused.to_string(), format!("\"b\": {}", Error::StealShared));
    assert!(!holder.is_lost());
    // A mode that applies to no name is no reason to refuse.
    let shared = options(true, false, Mode::Shared, false);
    let own_mode = locks.lock_all_with([("c", Mode::Exclusive)]).with_options(shared);
    assert_eq!(soon(own_mode).unwrap().map(|guards| guards.len()), Some(1));
    let both = options(true, true, Mode::Exclusive, false);
    let none = locks.lock_all(Vec::<String>::new()).with_options(both);
    assert_eq!(soon(none).unwrap_err(), Error::StealIfAvailable.into());
    if HAS_THREADS {
        let thief = locks.lock_all(["a", "b"]).with_options(steal);
        let stolen = thief.blocking_timeout(super::DEADLINE).unwrap();
        assert_eq!(stolen.map(|guards| guards.len()), Some(2));
        assert!(holder.is_lost());
    }
}

/// Rule 20: every failure is an `Err` of the awaited future, however the lock is asked for.
pub fn every_failure_is_an_error_and_leaves_nothing_behind(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let holder = exclusive(&locks, "held");
    let opaque = user_agent.opaque_bucket().lock_manager();
    let [inactive, terminated] = [(); 2].map(|()| agent(user_agent));
    inactive.set_fully_active(false);
    terminated.terminate();
    for (failing, expected) in [
        (&inactive, Error::NotFullyActive),
        (&terminated, Error::Terminated),
        (&opaque, Error::Unobtainable),
    ] {
        // These are good names and bad ones, because the name is checked later.
        for name in ["db", "held", "-"] {
            fails_in_every_way(failing, name, &expected);
        }
        assert_eq!(soon(failing.query()).unwrap_err(), expected);
        assert_eq!(soon(failing.inspect(None)).unwrap_err(), expected);
    }
    fails_in_every_way(&locks, "-", &Error::ReservedName);

    let refused = [
        (options(true, true, Mode::Exclusive, false), Error::StealIfAvailable),
        (options(true, false, Mode::Shared, false), Error::StealShared),
        (options(true, false, Mode::Exclusive, true), Error::SignalWithoutWaiting),
        (options(false, true, Mode::Exclusive, true), Error::SignalWithoutWaiting),
    ];
    for (options, expected) in refused {
        assert_eq!(soon(locks.lock_with("held", options)).unwrap_err(), expected);
        if HAS_THREADS {
            assert_eq!(locks.lock_with("held", options).blocking().unwrap_err(), expected);
        }
        let run = locks.lock_with("held", options).run(async |_| unreachable!("it is refused"));
        assert_eq!(soon(run), Err::<(), _>(expected));
    }

    // A request can also fail while it waits.
    if HAS_THREADS {
        let late = locks.lock("held").blocking_timeout(Duration::ZERO);
        assert!(matches!(late.unwrap_err(), Error::TimedOut(_)));
        let late = locks.lock_all(["db", "held"]).blocking_timeout(Duration::ZERO);
        assert!(matches!(late.unwrap_err().error, Error::TimedOut(_)));
    }
    let dying = agent(user_agent);
    let waiting = Waiting::new(&dying, dying.lock("held"));
    dying.terminate();
    assert_eq!(waiting.failed(), Error::Terminated);

    assert!(!holder.is_lost());
    drop(holder);
    assert_nothing_is_left(&locks);
}

fn fails_in_every_way(locks: &LockManager, name: &str, expected: &Error) {
    let never = || unreachable!("it fails before that");
    assert_eq!(soon(locks.request(name, async |_| never())).as_ref(), Err::<&(), _>(expected));
    assert_eq!(soon(locks.lock(name)).unwrap_err(), *expected);
    assert_eq!(soon(locks.lock(name).shared()).unwrap_err(), *expected);
    assert_eq!(soon(locks.lock(name).steal()).unwrap_err(), *expected);
    assert_eq!(soon(locks.lock(name).if_available()).unwrap_err(), *expected);
    assert_eq!(soon(locks.lock_with(name, LockOptions::default())).unwrap_err(), *expected);
    let all = || locks.lock_all(["a", name, "z"]);
    assert_eq!(soon(all()).unwrap_err().error, *expected);
    assert_eq!(soon(all().if_available()).unwrap_err().error, *expected);
    if HAS_THREADS {
        assert_eq!(locks.lock(name).blocking().unwrap_err(), *expected);
        assert_eq!(locks.lock(name).blocking_timeout(Duration::MAX).unwrap_err(), *expected);
        assert_eq!(all().blocking().unwrap_err().error, *expected);
    }
    let run = locks.request_all(["a", name], async |_| never());
    assert_eq!(soon(run).map_err(Error::from).as_ref(), Err::<&(), _>(expected));
}
