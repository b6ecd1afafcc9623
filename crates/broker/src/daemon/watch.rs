//! Being told when something is removed from a directory.

use std::path::Path;

/// Word of what is removed from a directory.
pub(super) struct Watch {
    /// Read like a pipe, which tokio needs no unsafe word for.
    #[cfg(target_os = "linux")]
    events: tokio::net::unix::pipe::Receiver,
    #[cfg(not(target_os = "linux"))]
    events: std::convert::Infallible,
}

#[cfg(target_os = "linux")]
impl Watch {
    /// `None` if there is none to be had: then it is looked now and then.
    pub(super) fn of(directory: &Path) -> Option<Self> {
        use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
        use tokio::net::unix::pipe::Receiver;
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let gone = WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&events, directory, gone).ok()?;
        Some(Self { events: Receiver::from_owned_fd_unchecked(events).ok()? })
    }

    /// Waits until something has changed.
    pub(super) async fn changed(&mut self) {
        if self.events.readable().await.is_err() {
            return std::future::pending().await;
        }
        // What it was is looked for. A directory that is gone says so once.
        let mut bytes = [0_u8; 4096];
        while self.events.try_read(&mut bytes).is_ok_and(|length| length > 0) {}
    }
}

#[cfg(not(target_os = "linux"))]
impl Watch {
    pub(super) fn of(_: &Path) -> Option<Self> {
        None
    }

    pub(super) async fn changed(&mut self) {
        match self.events {}
    }
}
