//! The times that a reach is set up with.

use std::time::Duration;

use navlock_core::{Error, host::seconds};

use crate::lease::{LeaseTimes, Renewal, default_margin};

/// The smallest margin.
const LEAST_MARGIN: Duration = Duration::from_millis(200);

/// The least of what one call may be given.
const LEAST_CALL: Duration = Duration::from_millis(500);

/// The times that people set for a reach.
#[derive(Clone, Debug)]
pub struct Times {
    /// For how long the store keeps a lease after it has last heard of the connection.
    pub time_to_live: Duration,
    /// How long it may take to connect.
    pub timeout: Duration,
    /// How much earlier a holder counts its locks as lost; `None` for the default.
    pub margin: Option<Duration>,
}

impl Times {
    /// How long one call may take. There must be time for several calls before a lease ends.
    pub fn call(&self) -> Duration {
        self.timeout.min((self.time_to_live / 8).max(LEAST_CALL))
    }

    /// How long before its end a lease with this time to live counts as over.
    fn margin_of(&self, time_to_live: Duration) -> Duration {
        self.margin.unwrap_or_else(|| default_margin(time_to_live))
    }

    /// For how long the work under a lock may go on after the lock is lost with its lease.
    pub(crate) fn grace(&self) -> Duration {
        self.margin_of(self.time_to_live)
    }

    /// The times of a lease after this renewal.
    pub(crate) fn term(&self, renewal: Renewal) -> LeaseTimes {
        let margin = self.margin_of(renewal.time_to_live);
        // The lease may be another connection's, with a shorter time to live.
        renewal.term(margin.min(renewal.time_to_live / 2), self.call())
    }

    /// # Errors
    ///
    /// [`Error::Refused`] if the margin does not fit into the time to live.
    pub fn check(&self) -> Result<(), Error> {
        let most = self.time_to_live / 2;
        match self.margin {
            Some(margin) if !(LEAST_MARGIN..=most).contains(&margin) => {
                Err(Error::refused(format!(
                    "a margin of {} does not fit into a time to live of {}: {} at least, or there is \
                     no time to end what works under a lost lock, and {} at most, or locks could not \
                     be renewed in time",
                    seconds(margin),
                    seconds(self.time_to_live),
                    seconds(LEAST_MARGIN),
                    seconds(most)
                )))
            }
            _ => Ok(()),
        }
    }
}
