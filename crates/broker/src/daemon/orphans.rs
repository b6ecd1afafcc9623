//! Locks whose client was killed and that others have inherited, as the command of a `navlock run`
//! has whose `navlock` was killed.
//!
//! An orphan is a [`Client`](super::client::Client) without a connection. It ends with the last of
//! the processes that have inherited its locks, or with the last of the locks. Its client may come back to it.
//!
//! In the same way a client is kept that lives and has not come back from an earlier daemon, if its
//! [map](super::maps) tells what it holds.

use std::{
    fs::File,
    future::poll_fn,
    io,
    sync::{Arc, Weak},
    task::Poll,
    thread,
};

use navlock_engine::RequestId;
use navlock_wire::{ClientKey, ClientState};
use tokio::{
    runtime::Handle,
    time::{Duration, Instant, sleep},
};

use super::{
    claims::{self, Claims},
    client::Client,
    orphan::{KeptFor, Orphan, Watch},
    outcome::Outcome,
    process::Process,
    shared_client::{SharedClient, lock},
    state::Daemon,
};
use crate::{LOGS, client_files::Inherited, inherited_claims};

/// How often it is tried again to look at a file.
const LOOK: Duration = Duration::from_millis(20);

impl Inherited {
    /// What is claimed by it, for this client; `None` if it cannot be read.
    pub(super) fn replay(&mut self, client: &mut Client) -> Option<Claims> {
        claims::replay(&self.claims().ok()?, client)
    }
}

impl Daemon {
    /// The file of inherited locks, for which it may take until `deadline` to be looked at.
    pub(super) async fn inherited(
        &self,
        key: ClientKey,
        kept: Option<&File>,
        deadline: Instant,
    ) -> Option<Inherited> {
        let files = self.files()?;
        loop {
            let inherited = match (files.inherited(key), kept) {
                // Somebody may have removed it since it was opened.
                (Ok(None), Some(file)) => files.inherited_by(key, file),
                (found, _) => found,
            };
            match inherited {
                Ok(inherited) => return inherited,
                Err(_) if Instant::now() >= deadline => return None,
                Err(_) => sleep(LOOK).await,
            }
        }
    }

    /// What this client has left to others.
    pub(super) fn left_by(
        &self,
        key: ClientKey,
        client: &SharedClient,
    ) -> io::Result<Option<Inherited>> {
        let Some(files) = self.files() else {
            return Ok(None);
        };
        let found = files.inherited(key)?;
        if found.is_some() { Ok(found) } else { lock(client).inherited() }
    }

    /// Keeps what an ended client has left to others. Whether it has.
    pub(super) fn adopt(self: &Arc<Self>, key: ClientKey, client: &SharedClient) -> bool {
        match self.left_by(key, client) {
            Ok(None) => false,
            Ok(Some(mut inherited)) => {
                // It says which of the locks are meant; all, if it cannot be read.
                let bytes = inherited.claims().ok();
                let meant = bytes.and_then(|bytes| inherited_claims::locks(&bytes));
                let is_meant = |id| meant.as_ref().is_none_or(|ids| ids.contains(&id));
                lock(client).keep_inherited(is_meant);
                self.keep_orphan(key, Arc::clone(client), Some(inherited))
            }
            // Until it can be told, it is as if they had.
            Err(_) => {
                lock(client).keep_inherited(|_| true);
                self.keep_orphan(key, Arc::clone(client), None)
            }
        }
    }

    /// Keeps a client that has left its locks to others. Whether it has any.
    pub(super) fn keep_orphan(
        self: &Arc<Self>,
        key: ClientKey,
        client: SharedClient,
        inherited: Option<Inherited>,
    ) -> bool {
        self.keep(key, client, inherited, KeptFor::Inheritors)
    }

    /// Keeps a client that has not come back, and whose own file this is. Whether it has any locks.
    pub(super) fn keep_sleeper(
        self: &Arc<Self>,
        key: ClientKey,
        client: SharedClient,
        own: Option<Inherited>,
    ) -> bool {
        self.keep(key, client, own, KeptFor::Sleeper)
    }

    fn keep(
        self: &Arc<Self>,
        key: ClientKey,
        client: SharedClient,
        inherited: Option<Inherited>,
        kept_for: KeptFor,
    ) -> bool {
        if lock(&client).is_empty() {
            return false;
        }
        let file = inherited.as_ref().and_then(Inherited::identity);
        let inheritors = lock(&client).inheritors(file);
        let mut clients = self.clients();
        let number = clients.number();
        let heard = listen(Arc::downgrade(self), number, Arc::downgrade(&client));
        let listening = tokio::spawn(heard).abort_handle();
        let watch = match inherited {
            Some(inherited) => self.watch(number, inherited, inheritors),
            None => Watch::ToStart,
        };
        let (state, why) = match kept_for {
            KeptFor::Sleeper => (ClientState::Sleeping, "is there and has not come back"),
            KeptFor::Inheritors => (ClientState::Orphaned, "has left them to others"),
        };
        lock(&client).set_number(number, state);
        clients.orphans.insert(number, Orphan { key, client, file, kept_for, watch, listening });
        drop(clients);
        tracing::info!(target: LOGS, "the locks of a client are kept that {why}");
        true
    }

    /// Has a thread wait for the end of those who have inherited the locks; the kernel tells it in no other way.
    /// How the end of this orphan is noticed from now on.
    fn watch(
        self: &Arc<Self>,
        number: u64,
        inherited: Inherited,
        inheritors: Vec<Process>,
    ) -> Watch {
        let (daemon, runtime) = (Arc::downgrade(self), Handle::current());
        let waiting = thread::Builder::new().name("navlock-orphan".to_owned()).spawn(move || {
            inherited.wait(|| inheritors.iter().for_each(Process::wait_if_ending));
            if let Some(daemon) = daemon.upgrade() {
                // What is left to be done takes a while.
                let _context = runtime.enter();
                daemon.end_orphan(number);
            }
        });
        if waiting.is_ok() { Watch::Thread } else { Watch::ToStart }
    }

    /// Those who had inherited the locks of this orphan have ended, or the last of the locks is lost.
    fn end_orphan(&self, number: u64) {
        // It may have been taken back. Dropped after the lock: it wakes others.
        let ended = self.clients().orphans.remove(&number);
        let key = ended.as_ref().map(|orphan| orphan.key);
        drop(ended);
        if let Some(key) = key {
            self.forget_leases(key);
        }
        self.gone.notify_one();
    }

    /// An orphan has lost a lock. Takes it out of the file of inherited locks, so that the next daemon does not
    /// believe it.
    fn note_loss(&self, number: u64, lost: RequestId) {
        let clients = self.clients();
        let (Some(files), Some(orphan)) = (self.files(), clients.orphans.get(&number)) else {
            return;
        };
        let (key, file) = (orphan.key, orphan.file);
        let is_empty = lock(&orphan.client).is_empty();
        drop(clients);
        if let Some(written) = file.and_then(|file| files.written(key, file)) {
            if is_empty {
                written.revoke();
            } else if let Ok(Some(mut inherited)) = files.inherited(key) {
                let claims = inherited.claims().unwrap_or_default();
                written.rewrite(&inherited_claims::without(&claims, lost));
            }
        }
        if is_empty {
            self.end_orphan(number);
        }
    }

    /// Looks again at what could not be done at once. To be called every few seconds.
    pub(super) fn tidy(self: &Arc<Self>) {
        let clients = self.clients();
        let as_they_are = |(number, orphan): (&u64, &Orphan)| {
            (*number, orphan.key, Arc::clone(&orphan.client), orphan.kept_for, orphan.watch)
        };
        let orphans: Vec<_> = clients.orphans.iter().map(as_they_are).collect();
        drop(clients);
        for (number, key, client, kept_for, watch) in orphans {
            if kept_for == KeptFor::Sleeper {
                // It may have woken up and released something, and nobody hears it say so.
                lock(&client).release_idle();
            }
            if watch == Watch::Thread {
                continue;
            }
            let left = match self.files().filter(|_| kept_for == KeptFor::Sleeper) {
                Some(files) => files.own(key),
                None => self.left_by(key, &client),
            };
            match left {
                Ok(None) => self.end_orphan(number),
                Ok(Some(inherited)) => {
                    let file = inherited.identity();
                    let inheritors = lock(&client).inheritors(file);
                    let watch = self.watch(number, inherited, inheritors);
                    if let Some(orphan) = self.clients().orphans.get_mut(&number) {
                        (orphan.watch, orphan.file) = (watch, file);
                    }
                }
                Err(_) => {}
            }
        }
    }
}

/// Hears what becomes of an orphan's locks, for as long as there is one.
async fn listen(daemon: Weak<Daemon>, number: u64, client: Weak<std::sync::Mutex<Client>>) {
    loop {
        let lost = poll_fn(|context| {
            let Some(client) = client.upgrade() else {
                return Poll::Ready(None);
            };
            loop {
                let outcome = lock(&client).poll_outcome(context);
                match outcome {
                    Poll::Ready((lost, Outcome::Lost(..))) => return Poll::Ready(Some(lost)),
                    Poll::Ready(_) => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        let (Some(lost), Some(daemon)) = (lost.await, daemon.upgrade()) else {
            return;
        };
        daemon.note_loss(number, lost);
    }
}
