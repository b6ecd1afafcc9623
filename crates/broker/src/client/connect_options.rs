//! Which broker to connect to, and how.

use std::{env, path::PathBuf, time::Duration};

use crate::{
    Place, PlaceError,
    buckets::{Buckets, variable_of_own},
    connect_error::ConnectError,
    deadline::Deadline,
};

/// Which broker to connect to, and how to start it.
///
/// ```no_run
/// use navlock::{BrokerReach, ConnectOptions};
/// use navlock::{UserAgent, blocking::block_on};
///
/// // A broker that this program brings along, and that is started if none runs.
/// let options = ConnectOptions::default().program("/opt/my-app/bin/navlock");
/// let reach = block_on(BrokerReach::connect(options))?;
/// let locks = UserAgent::with_reach(reach).lock_manager("my-app");
/// # drop(locks);
/// # Ok::<(), navlock::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    place: Option<Place>,
    pub(super) program: Option<PathBuf>,
    pub(super) only_running: bool,
    pub(super) only_questions: bool,
    shared: Option<bool>,
    timeout: Option<Duration>,
    delegate: Option<bool>,
}

impl ConnectOptions {
    /// Connects to the broker at this place, for all buckets. Without this option, each bucket is with the broker
    /// that the settings say: see [`Place::of_bucket`].
    #[must_use]
    pub fn place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Starts the broker with this `navlock` program. Without this option, it is the program that
    /// `NAVLOCK_BIN` names, or else the one on `PATH`.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Does not start the broker: if none runs, connecting fails with
    /// [`Reason::NotRunning`](crate::Reason::NotRunning).
    #[must_use]
    pub fn only_running(mut self) -> Self {
        self.only_running = true;
        self
    }

    /// Makes a connection for queries alone: snapshots, inspections, the broker's status. The client
    /// writes no file for such a connection, so it works even where the broker's directory has no room
    /// left. Requests for locks fail with [`Error::Refused`](navlock_core::Error::Refused).
    #[must_use]
    pub fn only_questions(mut self) -> Self {
        self.only_questions = true;
        self
    }

    /// Whether the broker must be one whose locks are seen beyond this machine. If it must be and is not,
    /// connecting fails with [`Reason::NotShared`](crate::Reason::NotShared). Without this option, the
    /// broker must be such a one if it is that of a store, or if `NAVLOCK_ETCD` or `NAVLOCK_POSTGRES` is set, because
    /// whoever has set the variable relies on that.
    #[must_use]
    pub fn shared(mut self, must_be: bool) -> Self {
        self.shared = Some(must_be);
        self
    }

    /// Gives up connecting after this time, which includes the start of the broker. Without this
    /// option, each step has a limit of its own, and all steps together may take half a minute. A
    /// broker that is being started meanwhile goes on starting.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Whether this client can own names. If it can, it takes and releases a lock that was free again
    /// without asking the broker, at the cost of a lock within the process, until somebody else asks
    /// for the lock. Nobody waits longer because of that, and nothing else is different. Without this
    /// option, the client can own names unless `NAVLOCK_DELEGATE` is `0` in the environment. In any
    /// case, the client owns names only as far as the broker and the system allow it.
    #[must_use]
    pub fn delegate(mut self, may_be: bool) -> Self {
        self.delegate = Some(may_be);
        self
    }

    pub(super) fn may_delegate(&self) -> bool {
        let is_off = || env::var_os("NAVLOCK_DELEGATE").is_some_and(|value| value == "0");
        self.delegate.unwrap_or_else(|| !is_off())
    }

    pub(super) fn deadline(&self) -> Deadline {
        self.timeout.map_or_else(Deadline::none, Deadline::after)
    }

    /// The place of the broker, and which buckets live with others.
    pub(super) fn find_place(&self) -> Result<(Place, Buckets), ConnectError> {
        let unplaced = |error: PlaceError| ConnectError {
            socket: Place::of_user().socket().to_owned(),
            reason: error.into(),
        };
        let chosen = self.place.clone().map(|place| (place, Buckets::default()));
        chosen.map_or_else(Place::with_buckets, Ok).map_err(unplaced)
    }

    pub(super) fn must_be_shared(&self, place: &Place) -> bool {
        let says =
            || place.store().is_some() || variable_of_own().is_some() && !place.is_of_system();
        self.shared.unwrap_or_else(says)
    }
}
