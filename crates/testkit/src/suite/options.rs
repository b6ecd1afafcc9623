//! Rules 17 and 20: what is refused, and in which order.

use navlock_core::{Error, LockOptions, Mode, UserAgent};

use super::{agent, assert_nothing_is_left, exclusive, soon};

fn options(steal: bool, if_available: bool, mode: Mode, signal: bool) -> LockOptions {
    LockOptions { mode, if_available, steal, signal }
}

/// Rule 17: the request breaks everything at once; mending what is found shows the next.
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
    assert_eq!(soon(locks.lock_all(["-"])).unwrap_err(), Error::NotFullyActive);
    locks.set_fully_active(true);
    drop(exclusive(&locks, "db"));
}

/// Rule 17, as the builder says it.
pub fn a_shared_lock_cannot_be_stolen(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let holder = exclusive(&locks, "db");
    assert_eq!(soon(locks.lock("db").shared().steal()).unwrap_err(), Error::StealShared);
    let both = locks.lock("db").if_available().steal();
    assert_eq!(soon(both).unwrap_err(), Error::StealIfAvailable);
    assert!(!holder.is_lost());
}

/// Rule 20.
pub fn failures_leave_nothing_behind(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    assert_eq!(soon(locks.request("-", async |_| ())), Err(Error::ReservedName));
    assert!(soon(locks.lock("db").shared().steal()).is_err());
    assert_nothing_is_left(&locks);
}
