//! The socket at which a daemon listens.

use std::{
    io,
    sync::{Arc, Mutex},
};

use navlock_platform::{
    file::share_with,
    socket::{self, AsyncListener, AsyncStream, Listener},
    user::GroupId,
};
use tokio::sync::Notify;

use super::daemon_error::DaemonError;
use crate::{Place, sync::lock};

/// The socket at which the daemon listens. If somebody removes its name, another socket takes its
/// place.
#[derive(Default)]
pub(super) struct Listening {
    socket: Mutex<Option<Arc<AsyncListener>>>,
    changed: Notify,
}

impl Listening {
    pub(super) fn at(socket: AsyncListener) -> Self {
        let listening = Self::default();
        listening.replace(socket);
        listening
    }

    pub(super) fn replace(&self, socket: AsyncListener) {
        *lock(&self.socket) = Some(Arc::new(socket));
        self.changed.notify_one();
    }

    /// The next connection.
    pub(super) async fn accept(&self) -> io::Result<AsyncStream> {
        loop {
            let current = lock(&self.socket).clone();
            let Some(current) = current else {
                self.changed.notified().await;
                continue;
            };
            tokio::select! {
                accepted = current.accept() => return accepted.map(|(stream, _)| stream),
                () = self.changed.notified() => {}
            }
        }
    }
}

/// Listens at the place, whose lock we hold. The members of the group may connect as well.
pub(super) fn listen(place: &Place, group: Option<GroupId>) -> io::Result<AsyncListener> {
    let listener = socket::listen(&place.temporary_socket(), place.socket())?;
    if let Some(group) = group {
        share_with(place.socket(), group, 0o660)?;
    }
    Ok(listener)
}

/// Listens at a socket that was passed, which must be that of the place.
pub(super) fn take_over(place: &Place, passed: &Listener) -> Result<AsyncListener, DaemonError> {
    let ours = || place.socket().to_owned();
    let unusable = |error| DaemonError::Unusable(ours(), error);
    let address = passed.local_addr().map_err(unusable)?;
    match address.as_pathname() {
        Some(path) if Place::at(path) == *place => {}
        path => return Err(DaemonError::Passed(ours(), path.map(Into::into))),
    }
    let listener = passed.try_clone().and_then(|socket| {
        socket.set_nonblocking(true)?;
        AsyncListener::from_std(socket)
    });
    listener.map_err(unusable)
}
