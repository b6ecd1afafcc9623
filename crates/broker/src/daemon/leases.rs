//! Ends the leases of dead clients, where locks are kept elsewhere.
//!
//! A leased lock outlives the daemon, so that its client can go on with the lock through the next
//! daemon. If the client died together with the daemon, others would needlessly wait for the end of
//! the lease. So the daemon notes the leases of a client's agents in a [file](crate::client_files)
//! beside the client's own file. The next daemon ends the leases of clients that are dead and whose
//! locks nobody has inherited.
//!
//! Names that the machine owns belong to the daemon and not to a client. The daemon notes their
//! leases in a file of its own. Perhaps only the client that holds such a name knows of its lock.
//! So the next daemon waits until every client that it has found has claimed its locks, or is dead.
//! Then all claimed locks are written to etcd like any other lock, and nothing that is left of the
//! names protects anything. So the daemon ends these leases.
//!
//! No lock depends on these notes: a lease that is not noted, or cannot be ended, ends by itself.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use navlock_core::{UserAgent, host};
use navlock_wire::{Agent, ClientKey};

use super::{client_record::ClientRecord, shared_client::lock, state::Daemon, timers::sleep};
use crate::client_files::{ClientFiles, Dead};

/// How often the daemon tries to end the leases of a dead client, before it leaves them to the next
/// sweep.
pub(super) const TRIES: usize = 5;

/// The time between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// How much time a client has to find out that its file is gone, before others can get its locks. A
/// client looks ten times a second.
const NOTICE: Duration = Duration::from_secs(1);

/// How long the notes of a client stay after its end, in case this daemon is killed before the
/// leases have ended.
const KEEP_NOTES: Duration = Duration::from_secs(2);

/// When the file has this many notes of leases that have ended, the file is written anew.
const MOST_OLD: usize = 64;

/// The notes of one client.
pub(super) struct Leases {
    daemon: Arc<Daemon>,
    client: ClientKey,
    noted: HashMap<Agent, Vec<u8>>,
    /// How many notes are in the file.
    written: usize,
}

impl Leases {
    pub(super) fn new(daemon: Arc<Daemon>, client: ClientKey) -> Self {
        Self { daemon, client, noted: HashMap::new(), written: 0 }
    }

    /// Notes the lease of one agent, if the agent has a lease that is not noted.
    pub(super) fn note(&mut self, client: &ClientRecord, agent: Agent) {
        let Some(lease) = client.lease(agent) else { return };
        if self.noted.get(&agent) == Some(&lease) {
            return;
        }
        let is_full = self.written >= 2 * self.noted.len() + MOST_OLD;
        // A lease that cannot be noted ends by itself.
        let files = self.daemon.files();
        if is_full && files.note_leases(self.client, self.noted.values()).is_ok() {
            self.written = self.noted.len();
        }
        let _ = files.note_lease(self.client, &lease);
        self.written += 1;
        self.noted.insert(agent, lease);
        self.note_own();
    }

    /// Notes the leases of all agents that have something, and those of the daemon itself.
    pub(super) fn note_all(&mut self, client: &ClientRecord) {
        for agent in client.askers() {
            self.note(client, agent);
        }
        self.note_own();
    }

    /// Notes the daemon's own lease. Names are owned only under the lease of some agent.
    fn note_own(&self) {
        let own = host::reach(&self.daemon.user_agent).lease().filter(|_| !self.noted.is_empty());
        if let Some(own) = own {
            self.daemon.own_leases.note(self.daemon.files(), own);
        }
    }

    /// Forgets the lease of an agent that has ended.
    pub(super) fn forget(&mut self, agent: Agent) {
        self.noted.remove(&agent);
    }
}

impl Daemon {
    /// Ends the leases of these clients in the background, with at most this many tries for each.
    pub(super) fn end_leases(&self, dead: Vec<Dead>, tries: usize) {
        if !self.user_agent.is_leased() {
            return;
        }
        let (certain, others): (Vec<_>, Vec<_>) = dead.into_iter().partition(|one| one.is_certain);
        for (those, notice) in [(certain, Duration::ZERO), (others, NOTICE)] {
            if !those.is_empty() {
                let (user_agent, files) = (self.user_agent.clone(), self.files().clone());
                self.tasks.spawn(end_leases(user_agent, files, those, notice, tries));
            }
        }
    }

    /// Ends the names that these daemons owned when they ended. Any client may hold one of these
    /// names. So this waits until all clients have claimed their locks or are dead, and then for a
    /// grace. In the grace, a client whose lock ended with its lease ends the work under that lock,
    /// and a client on which a daemon has hung up notices that.
    pub(super) fn end_names(self: &Arc<Self>, brokers: Vec<ClientKey>) {
        let files = self.files();
        if !self.user_agent.is_leased() {
            // This daemon's reach cannot end these names. They end by themselves.
            let dead = brokers.into_iter().filter(|one| files.left_by_broker(*one).is_some());
            return dead.for_each(|broker| files.forget_broker(broker));
        }
        if !brokers.is_empty() {
            let grace = host::reach(&self.user_agent).grace() + NOTICE;
            self.tasks.spawn(end_names(Arc::downgrade(self), files.clone(), brokers, grace));
        }
    }

    /// Whether any client that was found when the daemon started may still claim locks. This is so
    /// if its claims have not come yet, and it lives or others have inherited its locks.
    fn awaits_claims(&self) -> bool {
        let files = self.files();
        let is_kept =
            |client| lock(&self.clients).orphans.values().any(|orphan| orphan.key == client);
        let may_hold = |client: ClientKey| {
            files.lives(client) || !matches!(files.inherited(client), Ok(None)) && !is_kept(client)
        };
        // A client that is sending its claims counts even if somebody has removed its file.
        self.recovery.is_hearing() || self.recovery.absent().into_iter().any(may_hold)
    }

    /// Selects the clients that are dead and have left leases, and whose locks nobody has inherited.
    pub(super) fn dead(&self, clients: Vec<ClientKey>) -> Vec<Dead> {
        let files = self.files();
        let is_dead = |client: &ClientKey| files.has_leases(*client) && files.is_dead(*client);
        let dead = clients.into_iter().filter(is_dead);
        dead.map(|client| Dead { client, is_certain: true }).collect()
    }

    /// Removes the notes of a client that has ended. This is done a moment later, when its leases
    /// have ended as well.
    pub(super) fn forget_leases(&self, client: ClientKey) {
        if !self.files().has_leases(client) {
            return;
        }
        let files = self.files().clone();
        self.tasks.spawn(async move {
            sleep(KEEP_NOTES).await;
            // A client on which the daemon has hung up may have come back.
            if files.is_dead(client) {
                files.forget_leases(client);
            }
        });
    }
}

async fn end_leases(
    user_agent: UserAgent,
    files: ClientFiles,
    dead: Vec<Dead>,
    notice: Duration,
    tries: usize,
) {
    sleep(notice).await;
    let mut dead: Vec<ClientKey> = dead.iter().map(|dead| dead.client).collect();
    for _ in 0..tries {
        // A client that seemed dead may come back after all.
        dead.retain(|client| files.is_dead(*client));
        let leases = dead.iter().flat_map(|client| files.leases(*client)).collect();
        if host::reach(&user_agent).revoke(leases).await {
            return dead.into_iter().for_each(|client| files.forget_leases(client));
        }
        sleep(PAUSE).await;
    }
}

async fn end_names(
    daemon: Weak<Daemon>,
    files: ClientFiles,
    mut brokers: Vec<ClientKey>,
    grace: Duration,
) {
    let mut nobody_since = Instant::now();
    loop {
        let Some(here) = daemon.upgrade() else { return };
        let user_agent = here.user_agent.clone();
        if here.awaits_claims() {
            nobody_since = Instant::now();
        }
        drop(here);
        if nobody_since.elapsed() >= grace {
            let mut left = Vec::new();
            for broker in brokers {
                let has_ended = match files.left_by_broker(broker) {
                    Some(leases) => host::reach(&user_agent).revoke(leases).await,
                    None => false,
                };
                if has_ended {
                    files.forget_broker(broker);
                } else {
                    left.push(broker);
                }
            }
            if left.is_empty() {
                return;
            }
            brokers = left;
        }
        drop(user_agent);
        sleep(PAUSE).await;
    }
}
