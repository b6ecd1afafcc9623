//! What people are told of the surroundings of this process: a `/tmp` of its own, other users.

use std::fmt;

/// The explanation for a process that has one.
pub(crate) const WHY: &str = "this process has a /tmp of its own, as a service with PrivateTmp or a \
     container has, so its locks are not those of others on this machine; where they are to be, give \
     all one place by the key 'socket' in /etc/navlock.toml";

/// Adds to a message whatever in the surroundings of this process may be the reason.
pub(crate) fn tell_peculiarities(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut all = navlock_platform::surroundings::peculiarities().into_iter();
    all.try_for_each(|(_, why)| write!(f, "; {why}"))
}
