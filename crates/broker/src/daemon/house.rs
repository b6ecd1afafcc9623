//! What all sessions of a daemon share: who is there.

mod inspection;
mod report;
mod stay;

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use navlock_core::{ClientId, UserAgent};
use navlock_wire::ClientKey;
use tokio::{sync::Notify, time::Instant};

pub(super) use self::stay::Stay;
use super::{
    client::Client,
    delegations::Delegations,
    directory::Directory,
    ends::{End, Ends},
    log::Log,
    lookers::Lookers,
    maps::Maps,
    options::{Limits, Options},
    orphan::Orphan,
    own_leases::OwnLeases,
    recovery::Recovery,
    shared_client::{SharedClient, lock},
};
use crate::client_files::{self, ClientFiles, Found, OwnNotes};

/// The clients of a daemon.
pub(super) struct House {
    user_agent: UserAgent,
    limits: Limits,
    /// How far locks are seen, if that is further than this machine.
    reach: Option<String>,
    started: Instant,
    /// `None` for a daemon that nobody comes back to.
    files: Option<ClientFiles>,
    recovery: Recovery,
    /// The maps of those who were found.
    maps: Maps,
    /// Locks that stand in maps; `None` where there are none.
    delegations: Option<Arc<Delegations>>,
    /// Whether clients can own names.
    delegates: bool,
    rooms: Mutex<Rooms>,
    /// Who is told what happens.
    lookers: Arc<Lookers>,
    directory: Arc<Directory<Client>>,
    /// Somebody has gone.
    pub(super) gone: Notify,
    /// Somebody has asked the daemon to end.
    pub(super) stopped: Notify,
    /// Under what the daemon runs, as far as that does not change.
    details: Vec<(String, String)>,
    /// Why sessions ended.
    ends: Mutex<Ends>,
    /// Where the program logs, if it says so.
    log: Option<Arc<dyn Log>>,
    log_names: bool,
    /// What it has itself, where locks are kept elsewhere.
    own_leases: OwnLeases,
    /// The daemon ends, and its clients go on with the next one.
    is_left: AtomicBool,
}

#[derive(Default)]
pub(super) struct Rooms {
    /// Those who are connected, with the keys of those who have said theirs.
    pub(super) clients: HashMap<u64, (Option<ClientKey>, SharedClient)>,
    /// The heirs of clients that were killed.
    pub(super) orphans: HashMap<u64, Orphan>,
    next: u64,
}

impl House {
    pub(super) fn new(
        user_agent: UserAgent,
        options: &Options,
        files: Option<ClientFiles>,
        found: &Found,
        delegations: Option<Arc<Delegations>>,
    ) -> Self {
        let is_leased = user_agent.is_leased();
        Self {
            limits: options.limits,
            reach: options.reach.clone().or(is_leased.then(|| "other machines".to_owned())),
            user_agent,
            started: Instant::now(),
            recovery: Recovery::new(found),
            // What is leased may be others' by the time that it is taken again.
            delegations: delegations.filter(|_| !is_leased),
            delegates: options.delegate,
            maps: files.as_ref().map(|files| Maps::of(files, found)).unwrap_or_default(),
            files,
            rooms: Mutex::default(),
            lookers: Arc::default(),
            directory: Arc::default(),
            gone: Notify::new(),
            stopped: Notify::new(),
            details: options.details.clone(),
            ends: Mutex::default(),
            log: options.log.clone(),
            log_names: options.log_names,
            own_leases: OwnLeases::default(),
            is_left: AtomicBool::new(false),
        }
    }

    pub(super) fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn user_agent(&self) -> &UserAgent {
        &self.user_agent
    }

    /// How far locks are seen, for people, if that is further than this machine.
    pub(super) fn reach(&self) -> Option<&str> {
        self.reach.as_deref()
    }

    pub(super) fn maps(&self) -> &Maps {
        &self.maps
    }

    pub(super) fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// All agents of all clients.
    pub(super) fn agents(&self) -> HashSet<ClientId> {
        self.directory.agents_known()
    }

    /// Whose all agents are.
    pub(super) fn directory(&self) -> &Directory<Client> {
        &self.directory
    }

    pub(super) fn lookers(&self) -> &Arc<Lookers> {
        &self.lookers
    }

    /// Where locks are that stand in maps.
    pub(super) fn delegations(&self) -> Option<&Arc<Delegations>> {
        self.delegations.as_ref()
    }

    pub(super) fn own_leases(&self) -> &OwnLeases {
        &self.own_leases
    }

    pub(super) fn files(&self) -> Option<&ClientFiles> {
        self.files.as_ref()
    }

    /// Why sessions ended so far.
    pub(super) fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn new_client(&self) -> SharedClient {
        let (user_agent, lookers) = (self.user_agent.clone(), Arc::clone(&self.lookers));
        Arc::new_cyclic(|me| {
            let known = (Weak::clone(me), Arc::clone(&self.directory));
            let delegations = self.delegations.clone();
            let client = Client::new(user_agent, self.limits, delegations, lookers, known);
            Mutex::new(client.with_names_in_logs(self.log_names))
        })
    }

    /// Ends a client that has gone. Its own file may be there still.
    pub(super) fn forget(
        self: &Arc<Self>,
        room: u64,
        key: Option<ClientKey>,
        client: &SharedClient,
        leaves_file: bool,
    ) {
        let known = self.rooms().clients.remove(&room);
        drop(known);
        lock(client).end();
        self.gone.notify_one();
        let (Some(key), Some(files)) = (key, self.files().cloned()) else { return };
        let house = Arc::clone(self);
        // FAST: after who waits for its locks was told.
        tokio::spawn(async move {
            if leaves_file {
                _ = files.give_up(key);
            }
            house.forget_leases(key);
        });
    }

    /// Removes what clients have left behind whose end was not noticed. Whether that is to be looked
    /// at again.
    pub(super) fn sweep(&self) -> bool {
        let Some(files) = &self.files else { return false };
        // Another time, if it fails.
        let Ok(Found { mut dead, .. }) = files.find() else { return true };
        // Whose file was removed by somebody, or is being ended, is no affair of ours.
        let rooms = self.rooms();
        let clients = rooms.clients.values().filter_map(|(key, _)| *key);
        let here: HashSet<_> =
            clients.chain(rooms.orphans.values().map(|orphan| orphan.key)).collect();
        drop(rooms);
        dead.retain(|dead| !here.contains(&dead.client));
        let is_left = self.user_agent.is_leased() && !dead.is_empty();
        self.end_leases(dead, 1);
        is_left
    }

    /// Whether nobody is there.
    pub(super) fn is_empty(&self) -> bool {
        let rooms = self.rooms();
        rooms.clients.is_empty() && rooms.orphans.is_empty()
    }

    /// Has all clients see to their files, which somebody may have removed.
    pub(super) fn ask_to_register(&self) {
        for (_, client) in self.rooms().clients.values().cloned().collect::<Vec<_>>() {
            lock(&client).ask_to_register();
        }
    }

    /// Has those see to their files that are gone: if they are known, those of which something with one
    /// of these names was removed.
    pub(super) fn ask_whose_file_is_gone(&self, removed: Option<&[OsString]>) {
        let Some(files) = self.files() else { return };
        let removed: Option<HashSet<ClientKey>> = removed
            .map(|names| names.iter().filter_map(|name| client_files::client(name)).collect());
        let is_meant = |key: &ClientKey| removed.as_ref().is_none_or(|keys| keys.contains(key));
        let rooms = self.rooms();
        let clients = rooms.clients.values().filter_map(|(key, client)| Some(((*key)?, client)));
        let meant = clients.filter(|(key, _)| is_meant(key));
        let meant: Vec<_> = meant.map(|(key, client)| (key, Arc::clone(client))).collect();
        drop(rooms);
        for (_, client) in meant.iter().filter(|(key, _)| !files.has_own(*key)) {
            lock(client).ask_to_register();
        }
    }

    /// How many are there whose client was killed.
    pub(super) fn orphans(&self) -> usize {
        self.rooms().orphans.len()
    }

    /// Those who are there, and the heirs of those who were killed.
    pub(super) fn everybody(&self) -> Vec<SharedClient> {
        let rooms = self.rooms();
        let orphans = rooms.orphans.values().map(|orphan| &orphan.client);
        let clients = rooms.clients.values().map(|(_, client)| client);
        clients.chain(orphans).cloned().collect()
    }

    /// Leaves all that clients have as it is, whatever becomes of their sessions from here on: where
    /// locks are kept elsewhere, to end them would be to release them. What is noted of leases of our own, to be
    /// removed once the user agent has ended, and with it what it has.
    pub(super) fn leave_behind(&self) -> Option<OwnNotes> {
        self.is_left.store(true, SeqCst);
        let notes = self.own_leases.end(!self.is_empty());
        let clients: Vec<_> =
            self.rooms().clients.values().map(|(_, client)| Arc::clone(client)).collect();
        for client in clients {
            let pid = lock(&client).pid();
            self.ends().note(pid, &End::Left);
        }
        self.everybody().into_iter().for_each(mem::forget);
        notes
    }
}

impl Rooms {
    /// A number that no room has.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn take_orphan(&mut self, key: ClientKey) -> Option<Orphan> {
        let room = *self.orphans.iter().find(|(_, orphan)| orphan.key == key)?.0;
        self.orphans.remove(&room)
    }
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").finish_non_exhaustive()
    }
}
