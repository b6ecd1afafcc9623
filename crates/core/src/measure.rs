//! What is measured of locks, by the facade [`metrics`](https://docs.rs/metrics), with the feature of
//! that name.
//!
//! Requests and guards are measured, not backends. So each lock is measured once, whichever backend
//! keeps it. Without the feature, the types here have no size and do nothing.

#[cfg(not(feature = "metrics"))]
pub(crate) use self::off::{Holds, Waits};
#[cfg(feature = "metrics")]
pub(crate) use self::on::{Holds, Waits};

#[cfg(feature = "metrics")]
pub(crate) mod on {
    use std::time::Instant;

    use metrics::{
        Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
    };

    use crate::{Lost, agent_state::AgentState};

    const WAIT_TIME: &str = "navlock.lock.wait_time";
    const USE_TIME: &str = "navlock.lock.use_time";
    const PENDING: &str = "navlock.lock.pending_requests";
    const HELD: &str = "navlock.lock.held";
    const TIMEOUTS: &str = "navlock.lock.timeouts";
    const ABORTS: &str = "navlock.lock.aborts";
    const UNAVAILABLE: &str = "navlock.lock.unavailable";
    const STOLEN: &str = "navlock.lock.stolen";
    const LOST: &str = "navlock.lock.lost";

    /// Tells the recorder of [`metrics`] what is measured and in which units. To be called once the
    /// recorder is installed. Locks are measured with or without this call.
    ///
    /// The names follow OpenTelemetry's conventions for connection pools (`db.client.connection.*`), where
    /// a lock is the connection. No metric has a label: names of locks are as many as a program makes.
    ///
    /// | metric | kind, unit | OpenTelemetry's | what |
    /// |---|---|---|---|
    /// | `navlock.lock.wait_time` | histogram, seconds | `wait_time` | from the request to its grant |
    /// | `navlock.lock.use_time` | histogram, seconds | `use_time` | from the grant until the guard is dropped |
    /// | `navlock.lock.pending_requests` | gauge | `pending_requests` | requests that wait |
    /// | `navlock.lock.held` | gauge | `count`, with the state `used` | guards there are |
    /// | `navlock.lock.timeouts` | counter | `timeouts` | requests that [`blocking_timeout`] has given up |
    /// | `navlock.lock.aborts` | counter | | requests that were dropped or failed while they waited, as an executor's timeout does |
    /// | `navlock.lock.unavailable` | counter | | requests by [`if_available`] that came to nothing |
    /// | `navlock.lock.stolen` | counter | | locks that another request has stolen |
    /// | `navlock.lock.lost` | counter | | locks that ended against their holder's will in another way |
    ///
    /// With the feature, to take and release a free lock of one process takes some 2.4 times as
    /// long without a recorder, and 3.5 times as long with a recorder that counts by atomics: the
    /// clock is read three times, and the recorder is asked four times for a metric. Without the
    /// feature, no instruction is added.
    ///
    /// A loss is counted when the guard of the lost lock is dropped. A broker does not count the
    /// locks that it has for others.
    ///
    /// ```
    /// navlock::describe_metrics();
    /// ```
    ///
    /// [`blocking_timeout`]: crate::LockRequest::blocking_timeout
    /// [`if_available`]: crate::LockRequest::if_available
    pub fn describe_metrics() {
        describe_histogram!(WAIT_TIME, Unit::Seconds, "from the request of a lock to its grant");
        describe_histogram!(USE_TIME, Unit::Seconds, "from the grant of a lock to its release");
        describe_gauge!(PENDING, Unit::Count, "requests for locks that wait");
        describe_gauge!(HELD, Unit::Count, "locks that are held");
        describe_counter!(TIMEOUTS, Unit::Count, "requests for locks that took too long");
        describe_counter!(ABORTS, Unit::Count, "requests for locks that were given up or failed");
        describe_counter!(UNAVAILABLE, Unit::Count, "locks that were not to be had at once");
        describe_counter!(STOLEN, Unit::Count, "locks that another request has stolen");
        describe_counter!(LOST, Unit::Count, "locks that were lost and not stolen");
    }

    /// A request, from the moment in which it is made. If it is dropped while it waits, it was aborted.
    #[derive(Debug)]
    pub(crate) struct Waits {
        /// When it began; `None` if it is not counted.
        since: Option<Instant>,
        is_pending: bool,
    }

    /// A lock that is held.
    #[derive(Debug)]
    pub(crate) struct Holds {
        /// When it began; `None` if it is not counted.
        since: Option<Instant>,
    }

    impl Waits {
        pub(crate) fn begin(state: &AgentState) -> Self {
            Self { since: (!state.is_elsewhere()).then(Instant::now), is_pending: false }
        }

        /// A request that was made in another process, and is counted there.
        pub(crate) fn elsewhere() -> Self {
            Self { since: None, is_pending: false }
        }

        /// The request was not answered at once.
        pub(crate) fn pending(mut self) -> Self {
            if self.since.is_some() {
                gauge!(PENDING).increment(1.0);
                self.is_pending = true;
            }
            self
        }

        pub(crate) fn granted(mut self) -> Holds {
            self.end();
            let now = self.since.take().map(|since| {
                let now = Instant::now();
                histogram!(WAIT_TIME).record(now.duration_since(since));
                gauge!(HELD).increment(1.0);
                now
            });
            Holds { since: now }
        }

        pub(crate) fn unavailable(mut self) {
            self.end();
            if self.since.take().is_some() {
                counter!(UNAVAILABLE).increment(1);
            }
        }

        pub(crate) fn timed_out(&mut self) {
            self.end();
            if self.since.take().is_some() {
                counter!(TIMEOUTS).increment(1);
            }
        }

        fn end(&mut self) {
            if std::mem::take(&mut self.is_pending) {
                gauge!(PENDING).decrement(1.0);
            }
        }
    }

    impl Drop for Waits {
        fn drop(&mut self) {
            if self.is_pending {
                self.end();
                counter!(ABORTS).increment(1);
            }
        }
    }

    impl Holds {
        /// The lock was released, or had been lost before.
        pub(crate) fn end(&self, lost: impl FnOnce() -> Option<Lost>) {
            let Some(since) = self.since else { return };
            gauge!(HELD).decrement(1.0);
            histogram!(USE_TIME).record(since.elapsed());
            match lost() {
                None => {}
                Some(Lost::Stolen) => counter!(STOLEN).increment(1),
                Some(_) => counter!(LOST).increment(1),
            }
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod off {
    use crate::{Lost, agent_state::AgentState};

    /// A request, of which nothing is measured.
    #[derive(Debug)]
    pub(crate) struct Waits;

    /// A lock, of which nothing is measured.
    #[derive(Debug)]
    pub(crate) struct Holds;

    #[expect(clippy::unused_self, reason = "with the feature it is used")]
    impl Waits {
        #[inline]
        pub(crate) fn begin(_: &AgentState) -> Self {
            Self
        }

        #[inline]
        pub(crate) fn elsewhere() -> Self {
            Self
        }

        #[inline]
        pub(crate) fn pending(self) -> Self {
            self
        }

        #[inline]
        pub(crate) fn granted(self) -> Holds {
            Holds
        }

        #[inline]
        pub(crate) fn unavailable(self) {}

        #[inline]
        pub(crate) fn timed_out(&mut self) {}
    }

    #[expect(clippy::unused_self, reason = "with the feature it is used")]
    impl Holds {
        #[inline]
        pub(crate) fn end(&self, _: impl FnOnce() -> Option<Lost>) {}
    }
}
