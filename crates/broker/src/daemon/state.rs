//! The state of a daemon, which all its sessions share: its clients, its files and its options.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    fmt, mem,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Instant,
};

use navlock_core::UserAgent;
use navlock_wire::ClientKey;
use tokio::sync::Notify;

use super::{
    client_record::ClientRecord,
    delegations::Delegations,
    directory::Directory,
    guests::Guests,
    held_notes::HeldNotes,
    leaving::Leaving,
    log::Log,
    lookers::Lookers,
    maps::Maps,
    next_turn::NextTurn,
    options::{Limits, Options},
    orphan::Orphan,
    own_leases::OwnLeases,
    recovery::Recovery,
    session_ends::{End, Ends},
    shared_client::{SharedClient, lock},
    tasks::Tasks,
};
use crate::client_files::{self, ClientFiles, Found, OwnNotes};

/// The state of a daemon.
pub(super) struct Daemon {
    pub(super) user_agent: UserAgent,
    pub(super) limits: Limits,
    /// How far locks are seen, if they are seen beyond this machine.
    reach: Option<String>,
    pub(super) started: Instant,
    ends_when_idle: bool,
    /// The files of the clients.
    files: ClientFiles,
    pub(super) recovery: Recovery,
    /// The maps of the clients that were found when it started.
    pub(super) maps: Maps,
    /// The locks that stand in maps; `None` where maps are not used.
    delegations: Option<Arc<Delegations>>,
    /// Whether clients can own names.
    pub(super) delegates: bool,
    /// The users who share the daemon, if several do.
    guests: Option<Guests>,
    pub(super) clients: Mutex<Clients>,
    /// The lookers.
    pub(super) lookers: Arc<Lookers>,
    /// Finds the client of an agent.
    pub(super) directory: Arc<Directory<ClientRecord>>,
    /// Notified when a client has gone.
    pub(super) gone: Notify,
    /// Notified when somebody has asked the daemon to end.
    pub(super) stopped: Notify,
    /// The settings under which the daemon runs, for people, as far as they do not change.
    pub(super) details: Vec<(String, String)>,
    /// Why sessions ended.
    pub(super) ends: Mutex<Ends>,
    /// Where the program logs, if the program tells this.
    pub(super) log: Option<Arc<dyn Log>>,
    log_names: bool,
    /// The leases that the daemon has itself, where locks are kept elsewhere.
    pub(super) own_leases: OwnLeases,
    /// The clients that have gone and whose processes have not ended.
    pub(super) leaving: Leaving,
    pub(super) next_turn: NextTurn,
    /// What goes on between two turns.
    pub(super) tasks: Tasks,
    /// Whether the daemon has ended, and its clients go on with the next one.
    is_left: AtomicBool,
}

/// The clients of a daemon. Each has a number that no other client of this daemon has or has had.
#[derive(Default)]
pub(super) struct Clients {
    /// The connected clients, each with its key.
    pub(super) connected: HashMap<u64, (ClientKey, SharedClient)>,
    /// Clients without a connection whose locks are kept.
    pub(super) orphans: HashMap<u64, Orphan>,
    next: u64,
}

impl Daemon {
    pub(super) fn new(
        user_agent: UserAgent,
        options: &Options,
        files: ClientFiles,
        found: &Found,
        delegations: Option<Arc<Delegations>>,
    ) -> Self {
        let is_leased = user_agent.is_leased();
        let guests = options.group.map(|_| Guests::new(options.limits.of_user()));
        let directory = Arc::new(Directory::default());
        if guests.is_some() {
            reserve_agents(&files, found, &directory);
        }
        Self {
            limits: if guests.is_some() { options.limits.of_user() } else { options.limits },
            guests,
            reach: options.reach.clone().or(is_leased.then(|| "other machines".to_owned())),
            user_agent,
            started: Instant::now(),
            ends_when_idle: options.idle.is_some(),
            recovery: Recovery::new(found),
            // Names of leased locks are not owned: such a lock may be granted to another machine
            // before its owner takes it again.
            delegations: delegations.filter(|_| !is_leased),
            delegates: options.delegate,
            maps: Maps::of(&files, found),
            files,
            clients: Mutex::default(),
            lookers: Arc::default(),
            directory,
            gone: Notify::new(),
            stopped: Notify::new(),
            details: options.details.clone(),
            ends: Mutex::default(),
            log: options.log.clone(),
            log_names: options.log_names,
            own_leases: OwnLeases::default(),
            leaving: Leaving::default(),
            next_turn: NextTurn::default(),
            tasks: Tasks::default(),
            is_left: AtomicBool::new(false),
        }
    }

    /// How far locks are seen, as a text for people, if they are seen beyond this machine.
    pub(super) fn reach(&self) -> Option<&str> {
        self.reach.as_deref()
    }

    /// The users who share the daemon, if several do.
    pub(super) fn guests(&self) -> Option<&Guests> {
        self.guests.as_ref()
    }

    /// The locks that stand in maps.
    pub(super) fn delegations(&self) -> Option<&Arc<Delegations>> {
        self.delegations.as_ref()
    }

    pub(super) fn files(&self) -> &ClientFiles {
        &self.files
    }

    /// Whether the daemon has ended, and its clients go on with the next one.
    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(SeqCst)
    }

    /// From now on the daemon does nothing more to the files of its clients, who go on with the next one.
    pub(super) fn leaves(&self) {
        self.is_left.store(true, SeqCst);
    }

    pub(super) fn new_client(&self) -> SharedClient {
        let (user_agent, lookers) = (self.user_agent.clone(), Arc::clone(&self.lookers));
        Arc::new_cyclic(|me| {
            let known = (Weak::clone(me), Arc::clone(&self.directory));
            let delegations = self.delegations.clone();
            let client = ClientRecord::new(user_agent, self.limits, delegations, lookers, known);
            Mutex::new(client.with_names_in_logs(self.log_names))
        })
    }

    /// Ends a client that has gone. `leaves_file` says that the client's own file is still there.
    pub(super) fn forget(
        self: &Arc<Self>,
        number: u64,
        key: ClientKey,
        client: &SharedClient,
        leaves_file: bool,
    ) {
        if self.is_left() {
            return;
        }
        let known = lock(&self.clients).connected.remove(&number);
        drop(known);
        lock(client).end();
        self.gone.notify_one();
        let daemon = Arc::clone(self);
        // FAST: this comes after the waiters for the client's locks have been told.
        self.tasks.spawn(async move {
            if leaves_file {
                _ = daemon.files.give_up(key);
            }
            daemon.forget_leases(key);
        });
    }

    /// Removes the files of clients whose end was not noticed. Returns whether to look again.
    pub(super) fn sweep(&self) -> bool {
        // If this fails, it is tried again.
        let Ok(Found { mut dead, .. }) = self.files.find() else { return true };
        // A client that is connected or kept is not dead, even if its file is gone.
        let clients = lock(&self.clients);
        let connected = clients.connected.values().map(|(key, _)| *key);
        let here: HashSet<_> =
            connected.chain(clients.orphans.values().map(|orphan| orphan.key)).collect();
        drop(clients);
        dead.retain(|dead| !here.contains(&dead.client));
        let is_left = self.user_agent.is_leased() && !dead.is_empty();
        self.end_leases(dead, 1);
        is_left
    }

    /// Whether there are no clients.
    pub(super) fn is_empty(&self) -> bool {
        let clients = lock(&self.clients);
        clients.connected.is_empty() && clients.orphans.is_empty()
    }

    /// Whether the daemon may end at any time: it is not to stay, nobody is connected to it, and nobody may be
    /// coming back to it.
    pub(super) fn is_unused(&self) -> bool {
        self.ends_when_idle && self.recovery.is_over() && self.is_empty()
    }

    /// Asks all clients to check their own files, which somebody may have removed.
    pub(super) fn ask_to_register(&self) {
        for (_, client) in lock(&self.clients).connected.values().cloned().collect::<Vec<_>>() {
            lock(&client).ask_to_register();
        }
    }

    /// Asks the clients whose own file is gone to make the file anew. If the `removed` names are
    /// known, looks only at clients with a file of one of these names.
    pub(super) fn ask_whose_file_is_gone(&self, removed: Option<&[OsString]>) {
        let removed: Option<HashSet<ClientKey>> = removed
            .map(|names| names.iter().filter_map(|name| client_files::client(name)).collect());
        let is_meant = |key: &ClientKey| removed.as_ref().is_none_or(|keys| keys.contains(key));
        let clients = lock(&self.clients);
        let meant = clients.connected.values().filter(|(key, _)| is_meant(key));
        let meant: Vec<_> = meant.cloned().collect();
        drop(clients);
        for (_, client) in meant.iter().filter(|(key, _)| !self.files.has_own(*key)) {
            lock(client).ask_to_register();
        }
    }

    /// How many clients are kept without a connection.
    pub(super) fn orphans(&self) -> usize {
        lock(&self.clients).orphans.len()
    }

    /// The connected clients and the orphans.
    pub(super) fn all_clients(&self) -> Vec<SharedClient> {
        let clients = lock(&self.clients);
        let orphans = clients.orphans.values().map(|orphan| &orphan.client);
        let connected = clients.connected.values().map(|(_, client)| client);
        connected.chain(orphans).cloned().collect()
    }

    /// Leaves all requests and locks of clients as they are, although their sessions end: where
    /// another service keeps the locks, to end the clients would release their locks. Returns the
    /// notes of the daemon's own leases. The caller removes these notes once the user agent has
    /// ended, together with its leases.
    pub(super) fn leave_behind(&self) -> Option<OwnNotes> {
        self.leaves();
        let notes = self.own_leases.end(!self.is_empty());
        let clients: Vec<_> =
            lock(&self.clients).connected.values().map(|(_, client)| Arc::clone(client)).collect();
        for client in clients {
            let pid = lock(&client).pid();
            lock(&self.ends).note(pid, &End::Left);
        }
        self.all_clients().into_iter().for_each(mem::forget);
        notes
    }
}

/// Keeps the ids of agents for the clients of which an earlier daemon has noted them: everybody was shown the ids.
fn reserve_agents(files: &ClientFiles, found: &Found, directory: &Directory<ClientRecord>) {
    for key in &found.noted {
        let notes = files.open_notes(*key).and_then(HeldNotes::of);
        directory.reserve(notes.iter().flat_map(HeldNotes::agents), *key);
    }
}

#[cfg(test)]
impl Daemon {
    /// A daemon that keeps the locks itself. With `files`, its clients can own names. Without, no files can
    /// be made.
    pub(super) fn of_memory(files: Option<ClientFiles>) -> Arc<Self> {
        let delegations = files.is_some().then(|| Delegations::new(0));
        let files =
            files.unwrap_or_else(|| ClientFiles::of(&crate::Place::at("/nonexistent/sock")));
        let locks = super::user_agent(navlock_core::FencingToken::new(1));
        Arc::new(Self::new(locks, &Options::default(), files, &Found::default(), delegations))
    }
}

impl Clients {
    /// A number that no client has yet.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn take_orphan(&mut self, key: ClientKey) -> Option<Orphan> {
        let number = *self.orphans.iter().find(|(_, orphan)| orphan.key == key)?.0;
        self.orphans.remove(&number)
    }
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").finish_non_exhaustive()
    }
}
