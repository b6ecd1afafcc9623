//! The client's own file. As long as it stands, nobody else was granted what the client holds.

use std::{
    io,
    sync::{MutexGuard, PoisonError, TryLockError},
    task::Waker,
    time::{Duration, Instant},
};

use navlock_delegation::OwnerMap;

use super::{
    super::{
        client_table::{ClientTable, MapTask},
        reader::wake,
    },
    Shared,
};
use crate::{CLIENT_LOGS, client_files::Registration, inherited_claims};

/// How often the client checks, while there is no daemon, whether a daemon has given it up. A
/// daemon leaves the client a second to notice this, in which the client checks several times.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl Shared {
    pub(in super::super) fn registration(&self) -> MutexGuard<'_, Option<Registration>> {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes our own file, which says that this client lives. This must be done before any request,
    /// or a new daemon would not wait for this client.
    pub(super) fn register(&self) -> io::Result<()> {
        if self.only_questions {
            return Ok(());
        }
        let mut registration = self.registration();
        if registration.as_ref().is_some_and(Registration::stands) {
            return Ok(());
        }
        let mut wakers = Vec::new();
        // Somebody has removed the file, perhaps a daemon that has given this client up.
        if registration.is_some() {
            self.lose(&mut wakers);
        }
        let made = self.make_file(&mut registration);
        drop(registration);
        wake(wakers);
        made
    }

    fn make_file(&self, registration: &mut Option<Registration>) -> io::Result<()> {
        *registration = Some(self.files.register(self.key)?);
        self.change(ClientTable::file_replaced);
        Ok(())
    }

    /// Makes our file a map, or gives the map more slots, if that is wanted. This may take a moment.
    pub(in super::super) fn see_to_map(&self) {
        let task = self.table().take_map_task();
        match task {
            None => {}
            Some(MapTask::Make) => {
                // The registration is locked, so nobody replaces the file meanwhile.
                let registration = self.registration();
                let gone = || Err(io::ErrorKind::NotFound.into());
                let made =
                    registration.as_ref().map_or_else(gone, |own| OwnerMap::make(own.file()));
                self.change(|table| table.map_made(made));
            }
            Some(MapTask::Grow) => {
                self.owned.grow();
            }
        }
    }

    /// Whether no daemon has given this client up.
    pub(super) fn stands(&self) -> bool {
        // If another thread is making the file, that thread has checked this before.
        self.try_stands().unwrap_or(true)
    }

    /// Whether no daemon has given this client up, for the case that a thread that makes the file
    /// may not have checked this.
    pub(in super::super) fn stands_for_certain(&self) -> bool {
        self.try_stands().unwrap_or(false)
    }

    /// Whether our file stands; `None` if another thread has it locked.
    pub(super) fn try_stands(&self) -> Option<bool> {
        match self.registration.try_lock() {
            Ok(registration) => Some(registration.as_ref().is_some_and(Registration::stands)),
            Err(TryLockError::Poisoned(_)) => Some(false),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Ends the locks that are held, if a daemon has given this client up, or if no daemon would
    /// have waited for it. Does the same for inherited locks. To be called while there is no
    /// connection.
    pub(in super::super) fn end_given_up(&self) {
        if self.stands() || !self.table().is_alone() {
            return;
        }
        let mut wakers = Vec::new();
        self.lose(&mut wakers);
        wake(wakers);
    }

    /// Ends the locks that are held, if a daemon has given this client up. To be called when the connection
    /// has ended, though the maintainer may not know it yet. Adds the wakers to call to `wakers`.
    pub(super) fn lose_if_given_up(&self, wakers: &mut Vec<Waker>) {
        // This waits for a thread that makes the file anew, and then nothing is lost.
        let registration = self.registration();
        if registration.as_ref().is_some_and(|own| !own.stands()) {
            self.lose(wakers);
        }
    }

    /// Ends the locks that are held and not inherited.
    fn lose(&self, wakers: &mut Vec<Waker>) {
        let inherited = self.files.inherited(self.key).ok().flatten();
        let claims = inherited.and_then(|mut inherited| inherited.claims().ok());
        let inherited =
            claims.and_then(|claims| inherited_claims::locks(&claims)).unwrap_or_default();
        let holds = self.table().holds();
        wakers.extend(self.table().lose(|id| !inherited.contains(&id)));
        if holds {
            tracing::warn!(
                target: CLIENT_LOGS,
                "a broker has given this client up, or its file was removed: its locks are lost"
            );
        }
    }

    /// Ends the locks that are not ours any more, while there is no daemon to tell us of them.
    /// Returns when to do this again, if any locks are held.
    pub(in super::super) fn watch_held(&self) -> Option<Instant> {
        let terms = self.watch_terms();
        self.end_given_up();
        let alone = self.table().holds().then(|| Instant::now() + CHECK_INTERVAL);
        terms.into_iter().chain(alone).min()
    }

    /// Makes our file anew, as a daemon has asked for, if somebody has removed it. If that daemon has ended
    /// before the file was there, the next one has not waited for this client: then ends the locks that are
    /// held. Adds the wakers to call to `wakers`.
    pub(in super::super) fn register_again(&self, wakers: &mut Vec<Waker>) {
        let mut registration = self.registration();
        // A client without a file needs none yet.
        if registration.as_ref().is_none_or(Registration::stands) {
            return;
        }
        // If this fails, nothing has become worse.
        let _ = self.make_file(&mut registration);
        if self.has_hung_up() {
            self.lose(wakers);
        }
    }

    /// Removes our file, so that no daemon waits for us any more.
    pub(in super::super) fn unregister(&self) {
        *self.registration() = None;
    }
}
