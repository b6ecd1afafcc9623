//! What the common options chose, and how to connect to the broker that they name.

use std::{env, ffi::OsStr};

use clap::ColorChoice;
use navlock::{
    BrokerReach, ConnectError, ConnectOptions, Error, LockManager, Place, PlaceError, UserAgent,
};

use navlock_broker::buckets::{Home, Line, variable_of_own};

use super::Role;
use crate::{
    args::{Common, SOCKET, STORE},
    exit::Failure,
    settings,
    text::printable,
    verbosity::Verbosity,
};

/// What the common options chose.
pub(super) struct Context {
    pub(super) bucket: String,
    /// The place of the broker that the bucket lives with.
    pub(super) place: Place,
    /// The line of the settings that says so, if one does.
    home: Option<Line>,
    /// The places of the brokers that other buckets live with, unless one broker was chosen for all.
    pub(super) others: Vec<Place>,
    pub(super) verbosity: Verbosity,
    pub(super) colour: ColorChoice,
    /// Which process of a `navlock hold` this is.
    pub(super) role: Role,
}

/// Where a bucket lives.
struct Found {
    place: Place,
    /// The line of the settings that says so.
    line: Option<Line>,
    /// The brokers that other buckets live with.
    others: Vec<Place>,
}

/// Where this bucket lives, or, without one, the broker that was named or else the user's own.
fn find(common: &Common, bucket: Option<&str>) -> Result<Found, PlaceError> {
    let alone = |place| Found { place, line: None, others: Vec::new() };
    if common.system {
        return Ok(alone(Place::of_system()));
    }
    let socket = common.socket.as_ref().filter(|socket| !socket.as_os_str().is_empty());
    let option = |given: Option<&OsStr>, variable: &str| {
        given.is_some() && env::var_os(variable).as_deref() != given
    };
    let names_socket = option(socket.map(|socket| socket.as_os_str()), SOCKET);
    let store = common.store.as_deref();
    let store = store.filter(|store| option(Some(OsStr::new(store)), STORE));
    // Whoever names a broker uses it for all buckets, and an option goes before all variables.
    match (socket.filter(|_| names_socket), store) {
        (Some(socket), Some(store)) => return Ok(alone(Place::at(socket).of_store(store))),
        (Some(socket), None) => return Ok(alone(Place::at(socket))),
        (None, Some(store)) => return Place::of_users_store(store).map(alone),
        (None, None) => {}
    }
    let (own, buckets) = Place::with_buckets()?;
    let line = bucket.and_then(|bucket| buckets.line_of(bucket));
    let place = line.map_or_else(|| own.clone(), |line| line.place(&own));
    let others = buckets.places(&own).into_iter().filter(|other| *other != place).collect();
    Ok(Found { place, line: line.cloned(), others })
}

impl Context {
    /// The context, with the broker of the bucket or, if it is not `is_of_bucket`, the one that was named or else the
    /// user's own. If the place of the broker is not known, also returns why; the context then has
    /// this user's own place.
    pub(super) fn new(
        common: &Common,
        role: Role,
        is_of_bucket: bool,
    ) -> (Self, Option<PlaceError>) {
        // The bucket and the socket may come from variables. An empty variable counts as unset.
        let bucket = common.bucket.as_deref().filter(|bucket| !bucket.is_empty());
        let bucket = bucket.unwrap_or("default");
        let found = find(common, is_of_bucket.then_some(bucket));
        let unplaced = found.as_ref().err().cloned();
        let Found { place, line: home, others } = found.unwrap_or_else(|_| Found {
            place: Place::of_user(),
            line: None,
            others: Vec::new(),
        });
        let (verbosity, colour) = (Verbosity::of(common), common.color);
        (Self { bucket: bucket.to_owned(), place, home, others, verbosity, colour, role }, unplaced)
    }

    /// Where the bucket lives and why, for people.
    pub(super) fn home(&self) -> String {
        let here = || match self.place.store() {
            Some(store) => Home::Store(store.to_owned()),
            None if self.place.is_of_system() => Home::System,
            None => Home::Own,
        };
        let bucket = printable(&format!("{:?}", self.bucket));
        if let Some(variable) = variable_of_own().filter(|_| here() == Home::Own) {
            let kind = settings::kind_at(&self.place);
            return format!("the bucket {bucket} lives in the {kind} that {variable} names");
        }
        match &self.home {
            Some(line) => format!("the bucket {bucket} lives {} ({line})", line.home()),
            None => format!("the bucket {bucket} lives {}", here()),
        }
    }

    /// Connects to the broker.
    pub(super) fn connect(&self, options: ConnectOptions) -> Result<BrokerReach, Failure> {
        let reach = BrokerReach::connect_blocking(options).map_err(Error::from)?;
        self.verbosity.detail(self.home());
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
