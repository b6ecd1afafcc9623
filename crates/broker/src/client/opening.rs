//! Connections: before they are made, and when they are made.

use std::sync::Arc;

use navlock_core::ClientId;
use navlock_platform::user;

use super::{
    connect_options::ConnectOptions,
    connection::{Connection, Shared, start_thread},
    handshake,
    maintainer::Maintainer,
    reader::WakePipe,
};
use crate::{
    Place,
    client_files::ClientFiles,
    connect_error::{ConnectError, Reason},
};

/// A connection that the first request makes. See [`BrokerReach`](super::BrokerReach::connect_when_needed).
pub(super) fn connect_when_needed(
    place: Place,
    options: ConnectOptions,
) -> Result<Connection, ConnectError> {
    let socket = place.socket().to_owned();
    let prepared = prepare(place, options).and_then(|(connection, maintainer)| {
        maintainer_thread(move || maintainer.run_when_needed()).map(|()| connection)
    });
    prepared.map_err(|reason| ConnectError { socket, reason })
}

/// Starts the thread that keeps a connection. It ends with the connection.
pub(super) fn maintainer_thread(keep: impl FnOnce() + Send + 'static) -> Result<(), Reason> {
    start_thread(keep).map_err(|error| Reason::Io("starting a thread", error.into()))
}

/// Connects and calls `before`. Then registers this client as living, and begins to use the
/// connection. Blocks.
pub(super) fn open(
    place: Place,
    options: ConnectOptions,
    before: impl FnOnce(&Shared),
) -> Result<(Connection, Maintainer), Reason> {
    let welcomed = handshake::connect(&place, &options, options.deadline())?;
    let (connection, maintainer) = prepare(place, options)?;
    before(connection.shared());
    connection.shared().connected(welcomed)?;
    Ok((connection, maintainer))
}

/// A connection before it is made.
fn prepare(place: Place, options: ConnectOptions) -> Result<(Connection, Maintainer), Reason> {
    let wake_pipe = || WakePipe::new().map_err(|error| Reason::Io("connecting", error.into()));
    let files = ClientFiles::of_client(&place);
    let mut key = ClientId::random().to_bytes();
    if place.is_of_system() {
        // Nobody can speak for a client of another user.
        key[..4].copy_from_slice(&user::number(user::ours()).to_be_bytes());
    }
    let (waking_end, wake_end) = wake_pipe()?.split();
    let path = place.socket().to_owned();
    let (only_questions, delegate) = (options.only_questions, options.may_delegate());
    let shared = Shared::new(path, files, key, waking_end, wake_pipe()?, only_questions, delegate);
    let shared = Arc::new(shared.map_err(|error| Reason::Io("connecting", error.into()))?);
    let maintainer = Maintainer::new(Arc::clone(&shared), wake_end, place, options);
    Ok((Connection::new(shared), maintainer))
}
