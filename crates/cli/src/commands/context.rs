//! What the common options chose, and how to connect to the broker that they name.

use std::time::Duration;

use clap::ColorChoice;
use navlock::{
    BrokerReach, ConnectError, ConnectOptions, Error, LockManager, Place, PlaceError, UserAgent,
};

use super::Role;
use crate::{args::Common, exit::Failure, verbosity::Verbosity};

/// What the common options chose.
pub(super) struct Context {
    pub(super) bucket: String,
    pub(super) place: Place,
    pub(super) verbosity: Verbosity,
    pub(super) colour: ColorChoice,
    /// Which process of a `navlock hold` this is.
    pub(super) role: Role,
}

impl Context {
    /// The context. If the place of the broker is not known, also returns why; the context then has
    /// this user's own place.
    pub(super) fn new(common: &Common, role: Role) -> (Self, Option<PlaceError>) {
        // The bucket and the socket may come from variables. An empty variable counts as unset.
        let bucket = if common.bucket.is_empty() { "default" } else { &common.bucket };
        let place = match &common.socket {
            Some(socket) if !socket.as_os_str().is_empty() => Ok(Place::at(socket)),
            _ => Place::from_env(),
        };
        let unplaced = place.as_ref().err().cloned();
        let place = place.unwrap_or_else(|_| Place::of_user());
        let (verbosity, colour) = (Verbosity::of(common), common.color);
        (Self { bucket: bucket.to_owned(), place, verbosity, colour, role }, unplaced)
    }

    /// Connects to the broker, within this time if one is given. If the broker has to be started,
    /// it is started with this same program.
    pub(super) fn connect(&self, timeout: Option<Duration>) -> Result<BrokerReach, Failure> {
        let options = ConnectOptions::default();
        self.connect_by(timeout.into_iter().fold(options, ConnectOptions::timeout))
    }

    /// Connects to the broker only to ask questions, and not for locks.
    pub(super) fn connect_to_ask(&self) -> Result<BrokerReach, Failure> {
        self.connect_by(ConnectOptions::default().only_questions())
    }

    /// The options for a connection that only asks questions, for code that connects by itself.
    pub(super) fn to_ask(&self) -> ConnectOptions {
        self.ours(ConnectOptions::default().only_questions())
    }

    /// These options, for the broker of the context. If the broker has to be started, it is started
    /// with this program.
    fn ours(&self, options: ConnectOptions) -> ConnectOptions {
        let options = options.place(self.place.clone());
        match std::env::current_exe() {
            Ok(program) => options.program(program),
            Err(_) => options,
        }
    }

    fn connect_by(&self, options: ConnectOptions) -> Result<BrokerReach, Failure> {
        let reach = BrokerReach::connect_blocking(self.ours(options)).map_err(Error::from)?;
        self.verbosity.detail(format_args!("connected to {}", self.place.socket().display()));
        Ok(reach)
    }

    /// Connects to the broker, if there is one.
    pub(super) fn connect_to_running(&self) -> Result<BrokerReach, ConnectError> {
        let options = ConnectOptions::default().place(self.place.clone());
        BrokerReach::connect_blocking(options.only_running().only_questions())
    }

    /// If other programs of this machine cannot be seen here, tells people why.
    pub(super) fn tell_if_secluded(&self) {
        if let Some(why) = self.place.secluded() {
            self.verbosity.tell(why);
        }
    }

    /// A new agent.
    pub(super) fn lock_manager(&self, reach: &BrokerReach) -> LockManager {
        UserAgent::with_reach(reach.clone()).lock_manager(&self.bucket)
    }
}
