//! Rules 21, 23 and 24: names.

use navlock_core::{Error, ResourceName, UserAgent};

use super::{Waiting, agent, exclusive, soon};

/// Rule 21: any string, of any length.
pub fn any_string_is_a_name(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let long = "n".repeat(1 << 20);
    let nearly = format!("{}m", &long[1..]);
    for name in ["", "\0", "a\0b", "\u{10FFFF}", " ", "ö", &long, &nearly] {
        let guard = exclusive(&locks, name);
        assert_eq!(guard.name().as_str(), Some(name));
        let state = soon(locks.query()).unwrap();
        assert_eq!(state.held[0].name.as_str(), Some(name));
    }
    let _held = exclusive(&locks, &long);
    drop(exclusive(&locks, &nearly));
    drop(Waiting::new(&locks, locks.lock(&*long)));
}

/// Rule 23.
pub fn names_that_differ_in_a_lone_surrogate_are_different(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let names = [&[0xD800][..], &[0xDFFF], &[0xFFFD], &[0xDC00, 0xD800], &[0xD800, 0xDC00]]
        .map(|units| ResourceName::from_utf16(units).unwrap());
    let guards: Vec<_> =
        names.iter().map(|name| soon(locks.lock(name)).expect("no two are the same")).collect();
    for (name, guard) in names.iter().zip(&guards) {
        assert_eq!(guard.name(), name);
    }
    let mut seen: Vec<_> =
        soon(locks.query()).unwrap().held.into_iter().map(|info| info.name).collect();
    seen.sort();
    let mut names = names.to_vec();
    names.sort();
    assert_eq!(seen, names);
}

/// Rule 24.
pub fn a_hyphen_is_reserved_only_in_front(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    for reserved in ["-", "-a", "--", "-\0"] {
        assert_eq!(soon(locks.lock(reserved)).unwrap_err(), Error::ReservedName);
    }
    for fine in ["a-", " -", "\u{2010}", "\u{FF0D}"] {
        drop(exclusive(&locks, fine));
    }
}
