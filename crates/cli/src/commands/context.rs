//! What the common options chose, and how to connect to the broker that they name.

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
            _ if common.system => Ok(Place::of_system()),
            Some(socket) if !socket.as_os_str().is_empty() => Ok(Place::at(socket)),
            _ => Place::from_env(),
        };
        let unplaced = place.as_ref().err().cloned();
        let place = place.unwrap_or_else(|_| Place::of_user());
        let (verbosity, colour) = (Verbosity::of(common), common.color);
        (Self { bucket: bucket.to_owned(), place, verbosity, colour, role }, unplaced)
    }

    /// Connects to the broker.
    pub(super) fn connect(&self, options: ConnectOptions) -> Result<BrokerReach, Failure> {
        let reach = BrokerReach::connect_blocking(options).map_err(Error::from)?;
        self.verbosity.detail(format_args!("connected to {}", self.place.socket().display()));
        Ok(reach)
    }

    /// The options for a connection to the broker. If the broker has to be started, it is started with this
    /// same program.
    pub(super) fn options(&self) -> ConnectOptions {
        let options = ConnectOptions::default().place(self.place.clone());
        match std::env::current_exe() {
            Ok(program) => options.program(program),
            Err(_) => options,
        }
    }

    /// Connects to the broker, if there is one.
    pub(super) fn connect_to_running(&self) -> Result<BrokerReach, ConnectError> {
        BrokerReach::connect_blocking(self.options().only_running().only_questions())
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
