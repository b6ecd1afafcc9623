//! Warns a holder before its lock is lost, because the store does not answer.

use std::{fmt::Display, io::ErrorKind, ops::ControlFlow, thread, time::Duration};

use navlock::{BrokerReach, LockManager, Place, ResourceName};
use navlock_platform::socket;

use super::{Context, repeating::Repeating};
use crate::{
    exit::mention,
    settings::kind_at,
    text::{printable, quoted_name},
    time::elapsed,
};

/// How often the lease is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Warns people, as long as the returned value is kept, who hold these names by an agent whose locks have a
/// lease that ends. If the warning cannot be given, nothing else is missing.
pub(super) fn watch_for_outages(
    context: &Context,
    locks: &LockManager,
    names: &[ResourceName],
) -> Option<Repeating> {
    locks.term()?;
    let (locks, whose) = (locks.clone(), whose(names));
    let (place, to_ask) = (context.place.clone(), context.options().only_questions());
    let mut is_told = false;
    let mut store = "";
    let look = move || {
        let suspended = locks.term().and_then(|term| term.suspended());
        match suspended {
            // The lock is lost, of which other code tells people.
            Some((_, Duration::ZERO)) => return ControlFlow::Continue(()),
            Some((silent, left)) if !is_told => {
                let is_none = is_nobody_there(&place);
                store = kind_at(&place);
                mention(warning(store, silent, left, &whose, is_none));
                if is_none {
                    let to_ask = to_ask.clone();
                    tell_why_there_is_none(move || BrokerReach::connect_blocking(to_ask));
                }
            }
            None if is_told && locks.term().is_some() => {
                mention(format_args!("{store} answers again"));
            }
            _ => return ControlFlow::Continue(()),
        }
        is_told = suspended.is_some();
        ControlFlow::Continue(())
    };
    Repeating::start("navlock-outage", CHECK_INTERVAL, look).ok()
}

/// Whether there is no broker. This does not wait for a broker that does not answer, because the
/// locks may have to be released meanwhile.
fn is_nobody_there(place: &Place) -> bool {
    let connected = socket::connect(place.socket());
    let kinds = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
    connected.is_err_and(|error| kinds.contains(&error.kind()))
}

/// Says why no broker can start, if none can. This runs on its own thread, because it may take
/// longer than the lock lasts.
fn tell_why_there_is_none<T, E: Display>(connect: impl FnOnce() -> Result<T, E> + Send + 'static) {
    let tell = move || {
        if let Err(error) = connect() {
            mention(printable(&error.to_string()));
        }
    };
    // An error is ignored, because the message is only for people. The thread ends with the
    // process.
    let _ = thread::Builder::new().name("navlock-why".to_owned()).spawn(tell);
}

/// `etcd has not answered for 4s; "db" is yours for 5s more`, or that there is no broker
/// that could ask etcd.
fn warning(
    store: &str,
    silent: Duration,
    left: Duration,
    whose: &str,
    is_without_broker: bool,
) -> String {
    let (silent, left) = (elapsed(silent), elapsed(left));
    let what = if is_without_broker {
        format!("there is no broker, and {store} was last heard of {silent} ago")
    } else {
        format!("{store} has not answered for {silent}")
    };
    format!("{what}; {whose} yours for {left} more")
}

fn whose(names: &[ResourceName]) -> String {
    match names {
        [name] => format!("{} is", quoted_name(name)),
        _ => format!("{} locks are", names.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_says_how_long_there_is_left() {
        let names: Vec<ResourceName> = ["a", "b"].map(|name| name.try_into().unwrap()).into();
        let (silent, left) = (Duration::from_secs(4), Duration::from_secs(65));
        let said = |names| warning("etcd", silent, left, &whose(names), false);
        assert_eq!(
            said(&names[..1]),
            "etcd has not answered for 4s; \"a\" is yours for 1m05s more"
        );
        assert_eq!(
            warning("etcd", silent, left, &whose(&names[..1]), true),
            "there is no broker, and etcd was last heard of 4s ago; \"a\" is yours for 1m05s more"
        );
        assert!(said(&names).contains("; 2 locks are yours for"), "{}", said(&names));
    }
}
