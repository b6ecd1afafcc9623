//! Orphans: clients that were killed, and whose locks other processes have inherited, as the command of
//! `navlock run` does when `navlock` is killed.
//!
//! An orphan is a [`ClientRecord`](super::client_record::ClientRecord) without a connection. It ends with
//! the last of the processes that have inherited its locks, or with the last of these locks. The client
//! may come back and go on with these locks.
//!
//! A living client that has not come back from an earlier daemon is kept in the same way, if its
//! [map](super::maps) tells which locks it holds.

use std::{
    convert::Infallible,
    fs::File,
    future::poll_fn,
    io,
    sync::{Arc, Weak, mpsc},
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::abortable};

use navlock_core::{ResourceName, look::ClientState};
use navlock_engine::RequestId;
use navlock_wire::ClientKey;

use super::{
    claims::{self, Claims},
    client_record::ClientRecord,
    orphan::{KeptFor, Orphan, Watch},
    outcome::Outcome,
    process::Process,
    shared_client::{SharedClient, lock},
    state::Daemon,
    timers::sleep,
};
use crate::{LOGS, client_files::Inherited, clock, inherited_claims};

/// How many orphans have a thread each, where several users share the daemon.
const MOST_WATCHED: usize = 32;

/// The pause before the next try to read a file.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

impl Inherited {
    /// The claims that this file contains, for this client; `None` if the file cannot be read.
    pub(super) fn replay(&mut self, client: &mut ClientRecord) -> Option<Claims> {
        claims::replay(&self.claims().ok()?, client)
    }
}

impl Daemon {
    /// The file of inherited locks of this client. Tries until `deadline` to read it.
    pub(super) async fn inherited(
        &self,
        key: ClientKey,
        kept: Option<&File>,
        deadline: Instant,
    ) -> Option<Inherited> {
        loop {
            let inherited = match (self.files().inherited(key), kept) {
                // Somebody may have removed the file after this daemon had opened it.
                (Ok(None), Some(file)) => self.files().inherited_by(key, file),
                (found, _) => found,
            };
            match inherited {
                Ok(inherited) => return inherited,
                Err(_) if clock::instant() >= deadline => return None,
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// The file of the locks that others have inherited from this client.
    pub(super) fn left_by(
        &self,
        key: ClientKey,
        client: &SharedClient,
    ) -> io::Result<Option<Inherited>> {
        let found = self.files().inherited(key)?;
        if found.is_some() { Ok(found) } else { lock(client).inherited() }
    }

    /// Keeps the locks of an ended client that others have inherited. Returns whether there are
    /// any.
    pub(super) fn adopt(self: &Arc<Self>, key: ClientKey, client: &SharedClient) -> bool {
        let inherited = match self.left_by(key, client) {
            Ok(None) => return false,
            Ok(Some(mut inherited)) => {
                // The file tells which locks are inherited. If it cannot be read, all locks count
                // as inherited.
                let bytes = inherited.claims().ok();
                let meant = bytes.and_then(|bytes| inherited_claims::locks(&bytes));
                let is_guests = lock(client).user().is_some();
                let is_meant = |id| {
                    // Another user may have written anything.
                    meant.as_ref().map_or(!is_guests, |ids| ids.contains(&id))
                };
                lock(client).keep_inherited(is_meant);
                Some(inherited)
            }
            // Until the file can be looked for, all locks count as inherited.
            Err(_) => {
                lock(client).keep_inherited(|_| true);
                None
            }
        };
        self.keep(key, Arc::clone(client), inherited, KeptFor::Inheritors)
    }

    /// Keeps the locks of a client without a connection: those that others have inherited, with what they have
    /// inherited, or those of a client that lives and has not come back, with its own file. Returns whether it has
    /// any locks.
    pub(super) fn keep(
        self: &Arc<Self>,
        key: ClientKey,
        client: SharedClient,
        inherited: Option<Inherited>,
        kept_for: KeptFor,
    ) -> bool {
        if lock(&client).requests.len() == 0 {
            return false;
        }
        let file = inherited.as_ref().and_then(Inherited::identity);
        let inheritors = lock(&client).inheritors(file);
        let mut clients = lock(&self.clients);
        let number = clients.number();
        let heard = listen(Arc::downgrade(self), number, Arc::downgrade(&client));
        let (heard, listening) = abortable(heard);
        self.tasks.spawn(heard.map(drop));
        let is_watched = self.guests().is_none() || clients.orphans.len() < MOST_WATCHED;
        let watch = match inherited {
            // One user may not use up the threads. Such orphans are looked at every few seconds, and when somebody wants
            // what they hold.
            Some(_) if !is_watched => Watch::ToStart,
            Some(inherited) => self.watch(number, inherited, inheritors.clone()),
            None => Watch::ToStart,
        };
        let (state, why) = match kept_for {
            KeptFor::Sleeper => (ClientState::Sleeping, "lives and has not come back"),
            KeptFor::Inheritors => (ClientState::Orphaned, "has left them to others"),
        };
        lock(&client).set_number(number, state);
        let orphan = Orphan { key, client, file, kept_for, watch, inheritors, listening };
        clients.orphans.insert(number, orphan);
        drop(clients);
        tracing::info!(target: LOGS, "the locks of a client are kept: the client {why}");
        true
    }

    /// Lets a thread wait for the end of the processes that have inherited the locks: the kernel tells of
    /// their end only to a thread that waits for the file's lock. Returns how the end of this orphan is
    /// noticed from now on.
    fn watch(
        self: &Arc<Self>,
        number: u64,
        inherited: Inherited,
        inheritors: Vec<Process>,
    ) -> Watch {
        #[cfg(test)]
        if crate::clock::simulated::is_set() {
            // A simulation has one thread, which tidies instead.
            return Watch::ToStart;
        }
        let daemon = Arc::downgrade(self);
        let waiting = thread::Builder::new().name("navlock-orphan".to_owned()).spawn(move || {
            inherited.wait(|| {
                inheritors.iter().for_each(Process::wait_if_ending);
                // It ends with the next turn. The file stays until then, because a turn before may try it.
                let (ends, has_ended) = mpsc::channel::<Infallible>();
                let Some(here) = daemon.upgrade() else { return };
                let end = move || {
                    if let Some(daemon) = daemon.upgrade() {
                        daemon.end_orphan(number);
                    }
                    drop(ends);
                };
                here.leaving.when_ended(Vec::new(), end);
                here.next_turn.wake();
                drop(here);
                let Err(mpsc::RecvError) = has_ended.recv();
            });
        });
        if waiting.is_ok() { Watch::Thread } else { Watch::ToStart }
    }

    /// Ends the orphans that hold this name, or any, and are left by those for whom they are kept. The thread that waits
    /// for the file's lock may not have run yet.
    pub(super) fn end_left_orphans(&self, bucket: &str, name: Option<&ResourceName>) {
        if self.orphans() == 0 {
            return;
        }
        let holds = |client: &SharedClient| {
            let Some(name) = name else { return true };
            let mut held = Vec::new();
            lock(client).held(bucket, name, &mut held);
            !held.is_empty()
        };
        let clients = lock(&self.clients);
        let orphans = clients.orphans.iter();
        let left = orphans.filter(|(_, one)| holds(&one.client) && one.has_ended(self.files()));
        let left: Vec<_> = left.map(|(number, _)| *number).collect();
        drop(clients);
        for number in left {
            self.end_orphan(number);
        }
    }

    /// Ends an orphan: the processes that had inherited its locks have ended, or the last of the
    /// locks is lost.
    fn end_orphan(&self, number: u64) {
        if self.is_left() {
            return;
        }
        // There may be no such orphan any more, because its client has come back. The mutex of the clients
        // is not locked while the orphan ends, because that wakes others.
        let ended = lock(&self.clients).orphans.remove(&number);
        if let Some(orphan) = ended {
            // A picture that is being made may have the client as well.
            lock(&orphan.client).end();
            self.forget_leases(orphan.key);
        }
        self.gone.notify_one();
    }

    /// Called when an orphan has lost a lock: removes the lock from the file of inherited locks, so that the
    /// next daemon does not believe that it is held.
    fn note_loss(&self, number: u64, lost: RequestId) {
        let clients = lock(&self.clients);
        let Some(orphan) = clients.orphans.get(&number) else { return };
        let (key, file, files) = (orphan.key, orphan.file, self.files());
        let is_empty = lock(&orphan.client).requests.len() == 0;
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

    /// Tries again what has failed before. To be called every few seconds.
    pub(super) fn tidy(self: &Arc<Self>) {
        self.leaving.let_go();
        if let Some(guests) = self.guests() {
            guests.tidy(self.files());
        }
        let clients = lock(&self.clients);
        let as_they_are = |(number, orphan): (&u64, &Orphan)| {
            (*number, orphan.key, Arc::clone(&orphan.client), orphan.kept_for, orphan.watch)
        };
        let orphans: Vec<_> = clients.orphans.iter().map(as_they_are).collect();
        drop(clients);
        for (number, key, client, kept_for, watch) in orphans {
            if kept_for == KeptFor::Sleeper {
                // A fork of it that lives keeps its file locked, and holds nothing.
                if !self.files().lives(key) {
                    self.end_orphan(number);
                    continue;
                }
                // The sleeper may run again, and may have released a lock while it had no
                // connection by which to say so.
                lock(&client).requests.release_idle();
            }
            if watch == Watch::Thread {
                continue;
            }
            let left = match kept_for {
                KeptFor::Sleeper => self.files().own(key),
                KeptFor::Inheritors => self.left_by(key, &client),
            };
            match left {
                Ok(None) => self.end_orphan(number),
                // It has no thread because there are too many.
                Ok(Some(_)) if self.guests().is_some() && self.orphans() > MOST_WATCHED => {}
                Ok(Some(inherited)) => {
                    let file = inherited.identity();
                    let inheritors = lock(&client).inheritors(file);
                    let watch = self.watch(number, inherited, inheritors.clone());
                    if let Some(orphan) = lock(&self.clients).orphans.get_mut(&number) {
                        (orphan.watch, orphan.file) = (watch, file);
                        orphan.inheritors = inheritors;
                    }
                }
                Err(_) => {}
            }
        }
    }
}

/// Waits for the losses of an orphan's locks, as long as the orphan exists.
async fn listen(daemon: Weak<Daemon>, number: u64, client: Weak<std::sync::Mutex<ClientRecord>>) {
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
