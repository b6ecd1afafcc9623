//! The versions of the protocol.

use std::ops::RangeInclusive;

/// The newest version of the protocol, which is what this crate's clients speak.
///
/// 1. Agents, requests, snapshots. A connection that ends is the end of its agents.
/// 2. Clients introduce themselves, and after a crash of the daemon claim what they had from the
///    next one. Agents describe themselves, and can be inspected.
/// 3. Locks that are seen beyond this machine: a daemon that serves such locks says so, and says
///    until when an agent has what it has.
/// 4. A daemon can be asked to end, and says more of itself and of the end of locks.
/// 5. A client can own names: it takes them and releases them in a map that it shares with the daemon,
///    without a message.
/// 6. Lookers are told what there is in all buckets, and what happens; agents say more of
///    themselves, and inside which lock they ask for another. A daemon reports on itself, and takes
///    a name from those who were seen to hold it.
pub const VERSION: u16 = 6;

/// The oldest version that knows of locks which are seen beyond this machine. Their holders may
/// have them for a time only, and a client that does not know that would go on after others have
/// got them.
pub const SHARED_VERSION: u16 = 3;

/// The oldest version in which the daemon itself can be spoken to, without being its client.
pub const CONTROL_VERSION: u16 = 4;

/// The oldest version in which the daemon can be asked where an agent stands in a queue.
pub const POSITION_VERSION: u16 = 4;

/// The oldest version in which a client can own names.
pub const DELEGATION_VERSION: u16 = 5;

/// The oldest version in which the daemon tells lookers what happens.
pub const LOOKING_VERSION: u16 = 6;

/// The oldest version in which a daemon reports on itself, and can be told what to log.
pub const REPORT_VERSION: u16 = 6;

/// The oldest version in which a daemon can be told to take a name from those who were seen to hold it.
pub const STEAL_VERSION: u16 = 6;

/// The oldest version that this crate's daemon speaks.
pub const OLDEST_VERSION: u16 = 1;

/// The version to speak with a client that speaks `oldest` to `newest`, if there is one: the newest
/// that both do.
pub fn negotiate(oldest: u16, newest: u16) -> Option<u16> {
    agree(OLDEST_VERSION..=VERSION, oldest..=newest)
}

/// The newest version that is in both ranges.
fn agree(ours: RangeInclusive<u16>, theirs: RangeInclusive<u16>) -> Option<u16> {
    let version = *ours.end().min(theirs.end());
    (ours.contains(&version) && theirs.contains(&version)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_both_speak_is_spoken() {
        assert_eq!(negotiate(VERSION, VERSION), Some(VERSION));
        assert_eq!(negotiate(OLDEST_VERSION, VERSION), Some(VERSION));
    }

    #[test]
    fn an_old_client_is_spoken_to_in_its_version() {
        assert_eq!(negotiate(1, 1), Some(1));
        assert_eq!(negotiate(0, 1), Some(1));
    }

    #[test]
    fn a_new_client_speaks_an_old_daemons_version_if_it_still_can() {
        let old_daemon = 1..=1;
        assert_eq!(agree(old_daemon.clone(), 1..=VERSION), Some(1));
        assert_eq!(agree(old_daemon, 2..=VERSION), None);
    }

    #[test]
    fn a_client_of_the_future_is_spoken_to_if_it_remembers_us() {
        assert_eq!(negotiate(1, u16::MAX), Some(VERSION));
        assert_eq!(negotiate(VERSION, VERSION + 1), Some(VERSION));
        assert_eq!(negotiate(VERSION + 1, u16::MAX), None);
    }

    #[test]
    fn a_client_of_before_the_first_version_is_not_spoken_to() {
        assert_eq!(negotiate(0, 0), None);
    }

    #[test]
    fn nothing_is_agreed_on_with_a_range_that_holds_nothing() {
        for (oldest, newest) in [(2, 1), (1, 0), (VERSION + 1, VERSION), (u16::MAX, 0)] {
            assert_eq!(negotiate(oldest, newest), None, "{oldest} to {newest}");
        }
    }
}
