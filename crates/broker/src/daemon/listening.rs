//! The socket at which a daemon listens.

use std::{
    io,
    sync::{Arc, Mutex},
};

use navlock_platform::{
    file::share_with,
    socket::{self, Listener, Stream},
    user::GroupId,
};
use tokio::sync::Notify;

use super::{awaited::Awaited, daemon_error::DaemonError};
use crate::{Place, sync::lock};

/// The socket at which the daemon listens. If somebody removes its name, another socket takes its
/// place.
pub(super) struct Listening {
    socket: Mutex<Arc<Awaited<Listener>>>,
    changed: Notify,
}

impl Listening {
    pub(super) fn at(socket: Awaited<Listener>) -> Self {
        Self { socket: Mutex::new(Arc::new(socket)), changed: Notify::new() }
    }

    pub(super) fn replace(&self, socket: Awaited<Listener>) {
        *lock(&self.socket) = Arc::new(socket);
        self.changed.notify_one();
    }

    /// The next connection.
    pub(super) async fn accept(&self) -> io::Result<Stream> {
        loop {
            let current = Arc::clone(&lock(&self.socket));
            tokio::select! {
                accepted = current.when_ready(Listener::accept) => {
                    return accepted.map(|(stream, _)| stream);
                }
                () = self.changed.notified() => {}
            }
        }
    }
}

/// Has this listener told to the tasks of this thread.
///
/// # Errors
///
/// If there is no memory left.
fn awaited(listener: Listener) -> io::Result<Awaited<Listener>> {
    listener.set_nonblocking(true)?;
    Awaited::new(&Arc::new(listener))
}

/// Listens at the place, whose lock we hold. The members of the group may connect as well.
pub(super) fn listen(place: &Place, group: Option<GroupId>) -> io::Result<Awaited<Listener>> {
    let listener = socket::listen(&place.temporary_socket(), place.socket())?;
    if let Some(group) = group {
        share_with(place.socket(), group, 0o660)?;
    }
    awaited(listener)
}

/// Listens at a socket that was passed, which must be that of the place.
pub(super) fn take_over(
    place: &Place,
    passed: &Listener,
) -> Result<Awaited<Listener>, DaemonError> {
    let ours = || place.socket().to_owned();
    let unusable = |error| DaemonError::Unusable(ours(), error);
    let address = passed.local_addr().map_err(unusable)?;
    match address.as_pathname() {
        Some(path) if Place::at(path) == *place => {}
        path => return Err(DaemonError::Passed(ours(), path.map(Into::into))),
    }
    passed.try_clone().and_then(awaited).map_err(unusable)
}
