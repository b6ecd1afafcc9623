//! The lease of a machine, and its terms: the locks and requests of its agents end with it.

use std::time::Duration;

use navlock_core::ClientId;

use crate::clock::Uptime;

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseName {
    /// The number of the store, so that a lease of another one is not taken for this one.
    pub cluster: u64,
    /// The number of the lease there.
    pub id: i64,
}

/// The part of a lease that belongs to one agent, or to the connection for all of its agents. When
/// the connection is dead, others can end the keys under the lease by this share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The lease.
    pub(crate) lease: LeaseName,
    /// The client id of the agent, or of the connection.
    pub(crate) client_id: ClientId,
}

impl Share {
    /// The share as bytes, which others keep without reading them.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let Self { lease: LeaseName { cluster, id }, client_id } = self;
        [&cluster.to_be_bytes()[..], &id.to_be_bytes(), &client_id.to_bytes()].concat()
    }

    /// `None` if these bytes are no share.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (cluster, rest) = bytes.split_first_chunk()?;
        let (id, client_id) = rest.split_first_chunk()?;
        let lease =
            LeaseName { cluster: u64::from_be_bytes(*cluster), id: i64::from_be_bytes(*id) };
        Some(Self { lease, client_id: ClientId::from_bytes(client_id.try_into().ok()?) })
    }
}

/// A stretch of time in which the store keeps a lease for certain.
#[derive(Clone, Copy, Debug)]
pub struct Renewal {
    /// When the renewal was sent that the store has answered. The store counts from a later moment.
    pub sent: Uptime,
    /// How long the store keeps the lease from that moment on.
    pub time_to_live: Duration,
}

/// What a renewal means for the holder of the lease.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeaseTimes {
    /// When the lease was last renewed.
    pub(crate) heard: Uptime,
    /// By when the lease should be renewed again.
    pub(crate) due: Uptime,
    /// When the holder counts its locks as lost.
    pub(crate) ends: Uptime,
    /// When the store may give the locks to others, by a clock that is as slow as clocks may be.
    pub(crate) expires: Uptime,
}

/// How much the rates of two clocks differ at most, in millionths: twice the drift of a quartz
/// clock outside of its range of temperature.
const DRIFT: u32 = 500;

impl Renewal {
    /// The times of the lease after this renewal. `margin` is the time from the moment at which a
    /// holder counts its locks as lost to the moment at which others may be granted these locks.
    /// `call` is how long a renewal may take.
    pub(crate) fn term(self, margin: Duration, call: Duration) -> LeaseTimes {
        let Self { sent, time_to_live } = self;
        let certain = time_to_live.saturating_sub(time_to_live / 1_000_000 * DRIFT);
        LeaseTimes {
            heard: sent,
            due: sent.after(pause(time_to_live) + call),
            ends: sent.after(certain.saturating_sub(margin)),
            expires: sent.after(certain),
        }
    }
}

/// The longest margin, unless it is configured.
const LONGEST_DEFAULT_MARGIN: Duration = Duration::from_secs(2);

/// The margin, unless it is configured: a fifth of the time to live, 2 s at most. A holder counts
/// its locks as lost this long before others may be granted them. In this time, the work under the
/// locks ends.
pub(crate) fn default_margin(time_to_live: Duration) -> Duration {
    (time_to_live / 5).min(LONGEST_DEFAULT_MARGIN)
}

/// How long after a renewal the next one is sent. The time is short enough that a few renewals may
/// fail before the lease ends.
pub fn pause(time_to_live: Duration) -> Duration {
    time_to_live / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_gives_up_before_the_store_does() {
        for seconds in [2, 10, 60] {
            let time_to_live = Duration::from_secs(seconds);
            let sent = Uptime::now();
            let term =
                Renewal { sent, time_to_live }.term(default_margin(time_to_live), time_to_live / 8);
            assert!(term.ends.after(Duration::from_millis(400)) <= sent.after(time_to_live));
            assert!(term.ends.after(Duration::from_millis(2100)) >= sent.after(time_to_live));
            // Two renewals fit in.
            assert!(term.ends > sent.after(time_to_live * 2 / 3));
            assert!(term.heard < term.due && term.due < term.ends && term.ends < term.expires);
        }
    }

    #[test]
    fn a_long_term_ends_earlier_by_what_clocks_go_apart() {
        let (sent, day) = (Uptime::now(), Duration::from_secs(24 * 60 * 60));
        let term =
            Renewal { sent, time_to_live: day }.term(default_margin(day), Duration::from_secs(5));
        // 43 s of a day.
        assert!(term.expires.after(Duration::from_secs(43)) <= sent.after(day));
        assert!(term.ends.after(Duration::from_secs(2)) <= term.expires);
    }
}
