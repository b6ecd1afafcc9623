//! The client's own file: as long as it stands, what the client holds is its own.

use std::{
    io,
    sync::{MutexGuard, PoisonError, TryLockError},
    time::{Duration, Instant},
};

use navlock_delegation::OwnerMap;

use super::{
    super::{
        reader::wake,
        table::{MapTask, Table},
    },
    Shared,
};
use crate::{CLIENT_LOGS, client_files::Registration, inherited_claims};

/// How often it is looked, while there is no daemon, whether one has given us up: several times in
/// the second that it leaves us to notice.
const LOOK_ALONE: Duration = Duration::from_millis(100);

impl Shared {
    pub(super) fn registration(&self) -> MutexGuard<'_, Option<Registration>> {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it known that we live. Before anything is asked for, or a new daemon would not wait for
    /// us.
    pub(super) fn register(&self) -> io::Result<()> {
        if self.only_questions {
            return Ok(());
        }
        let mut registration = self.registration();
        // Somebody may have removed it.
        if !registration.as_ref().is_some_and(Registration::stands) {
            *registration = Some(self.files.register(self.key)?);
            self.change(Table::file_replaced);
        }
        Ok(())
    }

    /// Does what is to be done with our file, which may take a moment: makes it a map, or one with more
    /// room.
    pub(in super::super) fn see_to_map(&self) {
        let task = self.table().take_map_task();
        match task {
            None => {}
            Some(MapTask::Make) => {
                // Nobody puts another in its place meanwhile.
                let registration = self.registration();
                let gone = || Err(io::ErrorKind::NotFound.into());
                let made =
                    registration.as_ref().map_or_else(gone, |own| OwnerMap::make(own.file()));
                self.change(|table| table.map_made(made));
            }
            Some(MapTask::Grow) => {
                // If there is no room, there are as many as there were.
                if let Some(slots) = self.owned.map().and_then(|map| map.grow().ok()) {
                    self.owned.grown(slots);
                }
            }
        }
    }

    /// Whether no daemon has given us up.
    pub(super) fn stands(&self) -> bool {
        // If it is being made, whoever does that has looked before.
        self.try_stands().unwrap_or(true)
    }

    /// The same, where whoever makes it may not have looked.
    pub(in super::super) fn stands_for_certain(&self) -> bool {
        self.try_stands().unwrap_or(false)
    }

    /// Whether our file stands, unless somebody is at it.
    pub(super) fn try_stands(&self) -> Option<bool> {
        match self.registration.try_lock() {
            Ok(registration) => Some(registration.as_ref().is_some_and(Registration::stands)),
            Err(TryLockError::Poisoned(_)) => Some(false),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Ends what is held if a daemon has given us up, or if none would have waited for us; of what
    /// others have inherited, the same is asked. To be called while there is no connection.
    pub(in super::super) fn end_given_up(&self) {
        if self.stands() || !self.table().is_alone() {
            return;
        }
        let inherited = self.files.inherited(self.key).ok().flatten();
        let claims = inherited.and_then(|mut inherited| inherited.claims().ok());
        let inherited =
            claims.and_then(|claims| inherited_claims::locks(&claims)).unwrap_or_default();
        let holds = self.table().holds();
        let lost = self.table().lose(|id| !inherited.contains(&id));
        if holds {
            tracing::warn!(
                target: CLIENT_LOGS,
                "a broker has given this client up, or its file was removed: what it held is lost"
            );
        }
        wake(lost);
    }

    /// Ends what is not ours any more, of which there is no daemon to tell us. When that is to be
    /// done again, if anything is held.
    pub(in super::super) fn watch_held(&self) -> Option<Instant> {
        let terms = self.watch_terms();
        self.end_given_up();
        let alone = self.table().holds().then(|| Instant::now() + LOOK_ALONE);
        terms.into_iter().chain(alone).min()
    }

    /// Somebody may have removed our file.
    pub(in super::super) fn register_again(&self) {
        // Who has none yet is no client that anybody waits for. If it fails, we are as we were.
        if self.registration().is_some() {
            let _ = self.register();
        }
    }

    /// Has nobody wait for us any more.
    pub(in super::super) fn unregister(&self) {
        *self.registration() = None;
    }
}
