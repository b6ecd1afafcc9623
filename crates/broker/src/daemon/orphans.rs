//! Locks whose client was killed and that others have inherited, as the command of a `navlock run`
//! has whose `navlock` was killed.
//!
//! An orphan is a [`Client`](super::client::Client) without a connection. It ends with the last of
//! the heirs, or when it has lost the last of its locks, and its client may come back to it.
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
    house::House,
    orphan::Orphan,
    outcome::Outcome,
    process::Process,
    shared_client::{SharedClient, lock},
};
use crate::{LOGS, client_files::Inherited, testament};

/// How often it is tried again to look at a file.
const LOOK: Duration = Duration::from_millis(20);

impl Inherited {
    /// What is claimed by it, for this client; `None` if it cannot be read.
    pub(super) fn replay(&mut self, client: &mut Client) -> Option<Claims> {
        claims::replay(&self.claims().ok()?, client)
    }
}

impl House {
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
                let meant = bytes.and_then(|bytes| testament::meant(&bytes));
                let is_meant = |id| meant.as_ref().is_none_or(|ids| ids.contains(&id));
                lock(client).bequeath(is_meant);
                self.lodge(key, Arc::clone(client), Some(inherited))
            }
            // Until it can be told, it is as if they had.
            Err(_) => {
                lock(client).bequeath(|_| true);
                self.lodge(key, Arc::clone(client), None)
            }
        }
    }

    /// Keeps a client that has left its locks to others. Whether it has any.
    pub(super) fn lodge(
        self: &Arc<Self>,
        key: ClientKey,
        client: SharedClient,
        inherited: Option<Inherited>,
    ) -> bool {
        self.take_in(key, client, inherited, false)
    }

    /// Keeps a client that has not come back, and whose own file this is. Whether it has any locks.
    pub(super) fn lodge_sleeper(
        self: &Arc<Self>,
        key: ClientKey,
        client: SharedClient,
        own: Option<Inherited>,
    ) -> bool {
        self.take_in(key, client, own, true)
    }

    fn take_in(
        self: &Arc<Self>,
        key: ClientKey,
        client: SharedClient,
        inherited: Option<Inherited>,
        sleeps: bool,
    ) -> bool {
        if lock(&client).is_empty() {
            return false;
        }
        let file = inherited.as_ref().and_then(Inherited::identity);
        let heirs = lock(&client).heirs(file);
        let mut rooms = self.rooms();
        let room = rooms.number();
        let heard = listen(Arc::downgrade(self), room, Arc::downgrade(&client));
        let listening = tokio::spawn(heard).abort_handle();
        let watched = inherited.is_some_and(|inherited| self.watch(room, inherited, heirs));
        let state = if sleeps { ClientState::Sleeping } else { ClientState::Orphaned };
        lock(&client).set_room(room, state);
        rooms.orphans.insert(room, Orphan { key, client, file, sleeps, watched, listening });
        drop(rooms);
        let sort =
            if sleeps { "is there and has not come back" } else { "has left them to others" };
        tracing::info!(target: LOGS, "the locks of a client are kept that {sort}");
        true
    }

    /// Has a thread wait for the end of the heirs; there is no other way to be told. Whether there
    /// is one.
    fn watch(self: &Arc<Self>, room: u64, inherited: Inherited, heirs: Vec<Process>) -> bool {
        let (house, runtime) = (Arc::downgrade(self), Handle::current());
        let waiting = thread::Builder::new().name("navlock-orphan".to_owned()).spawn(move || {
            inherited.wait(|| heirs.iter().for_each(Process::wait_if_ending));
            if let Some(house) = house.upgrade() {
                // What is left to be done takes a while.
                let _context = runtime.enter();
                house.bury(room);
            }
        });
        waiting.is_ok()
    }

    /// The heirs have ended, or have nothing any more.
    fn bury(&self, room: u64) {
        // It may have been taken back. Dropped after the lock: it wakes others.
        let ended = self.rooms().orphans.remove(&room);
        let key = ended.as_ref().map(|orphan| orphan.key);
        drop(ended);
        if let Some(key) = key {
            self.forget_leases(key);
        }
        self.gone.notify_one();
    }

    /// The heirs have lost a lock, and are not to claim it from the next daemon.
    fn disinherit(&self, room: u64, lost: RequestId) {
        let rooms = self.rooms();
        let (Some(files), Some(orphan)) = (self.files(), rooms.orphans.get(&room)) else {
            return;
        };
        let (key, file) = (orphan.key, orphan.file);
        let is_empty = lock(&orphan.client).is_empty();
        drop(rooms);
        if let Some(written) = file.and_then(|file| files.written(key, file)) {
            if is_empty {
                written.revoke();
            } else if let Ok(Some(mut inherited)) = files.inherited(key) {
                let claims = inherited.claims().unwrap_or_default();
                written.rewrite(&testament::without(&claims, lost));
            }
        }
        if is_empty {
            self.bury(room);
        }
    }

    /// Looks again at what could not be done at once. To be called every few seconds.
    pub(super) fn tidy(self: &Arc<Self>) {
        let rooms = self.rooms();
        let as_they_are = |(room, orphan): (&u64, &Orphan)| {
            (*room, orphan.key, Arc::clone(&orphan.client), orphan.sleeps, orphan.watched)
        };
        let orphans: Vec<_> = rooms.orphans.iter().map(as_they_are).collect();
        drop(rooms);
        for (room, key, client, sleeps, watched) in orphans {
            if sleeps {
                // It may have woken up and released something, and nobody hears it say so.
                lock(&client).release_idle();
            }
            if watched {
                continue;
            }
            let left = match self.files().filter(|_| sleeps) {
                Some(files) => files.own(key),
                None => self.left_by(key, &client),
            };
            match left {
                Ok(None) => self.bury(room),
                Ok(Some(inherited)) => {
                    let file = inherited.identity();
                    let heirs = lock(&client).heirs(file);
                    let watched = self.watch(room, inherited, heirs);
                    if let Some(orphan) = self.rooms().orphans.get_mut(&room) {
                        (orphan.watched, orphan.file) = (watched, file);
                    }
                }
                Err(_) => {}
            }
        }
    }
}

/// Hears what becomes of an orphan's locks, for as long as there is one.
async fn listen(house: Weak<House>, room: u64, client: Weak<std::sync::Mutex<Client>>) {
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
        let (Some(lost), Some(house)) = (lost.await, house.upgrade()) else {
            return;
        };
        house.disinherit(room, lost);
    }
}
