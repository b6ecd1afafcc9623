//! Ending what the dead have left where locks are kept elsewhere.
//!
//! What is leased outlives the daemon that it was asked of, so that its client can go on with it
//! through the next one. If the client dies with the daemon, others would wait for the end of the
//! lease for nothing. So the daemon notes which leases a client's agents have, in a
//! [file](crate::client_files) beside the client's own, and its successor ends those of clients that
//! are dead and have left nothing to others.
//!
//! Nothing depends on it: what is not noted, or cannot be ended, ends by itself.

use std::{collections::HashMap, time::Duration};

use navlock_core::{UserAgent, host};
use navlock_wire::{Agent, ClientKey};
use tokio::time::sleep;

use super::{client::Client, house::House};
use crate::client_files::{ClientFiles, Dead};

/// How often it is tried to end what somebody has left, before it is looked at again with all else
/// that is left.
pub(super) const TRIES: usize = 5;

/// How long between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a client has to find out that its file is gone, before others can have what it holds: it
/// looks ten times a second.
const NOTICE: Duration = Duration::from_secs(1);

/// How long after a client's end its notes stay, for the case that we are killed before its leases
/// have ended.
const FAREWELL: Duration = Duration::from_secs(2);

/// With so many notes of leases that have ended, they are written anew.
const MOST_OLD: usize = 64;

/// What is noted of one client.
pub(super) struct Leases {
    client: ClientKey,
    files: ClientFiles,
    noted: HashMap<Agent, Vec<u8>>,
    /// How many are in the file since it was last written anew.
    written: usize,
}

impl Leases {
    pub(super) fn new(client: ClientKey, files: ClientFiles) -> Self {
        Self { client, files, noted: HashMap::new(), written: 0 }
    }

    /// Notes the lease of one agent, if it has one that is not noted.
    pub(super) fn note(&mut self, client: &Client, agent: Agent) {
        let Some(lease) = client.lease(agent) else { return };
        if self.noted.get(&agent) == Some(&lease) {
            return;
        }
        let is_full = self.written >= 2 * self.noted.len() + MOST_OLD;
        // What cannot be noted ends by itself.
        if is_full && self.files.note_leases(self.client, self.noted.values()).is_ok() {
            self.written = self.noted.len();
        }
        let _ = self.files.note_lease(self.client, &lease);
        self.written += 1;
        self.noted.insert(agent, lease);
    }

    /// The same of all agents.
    pub(super) fn note_all(&mut self, client: &Client) {
        for agent in client.askers() {
            self.note(client, agent);
        }
    }

    /// The agent has ended.
    pub(super) fn forget(&mut self, agent: Agent) {
        self.noted.remove(&agent);
    }
}

impl House {
    /// Ends what these have left, while all else goes on, if that can be done in so many tries.
    pub(super) fn end_leases(&self, dead: Vec<Dead>, tries: usize) {
        let Some(files) = self.files().filter(|_| self.user_agent().is_leased()) else { return };
        let (certain, others): (Vec<_>, Vec<_>) = dead.into_iter().partition(|one| one.is_certain);
        for (those, notice) in [(certain, Duration::ZERO), (others, NOTICE)] {
            if !those.is_empty() {
                let (user_agent, files) = (self.user_agent().clone(), files.clone());
                tokio::spawn(end_leases(user_agent, files, those, notice, tries));
            }
        }
    }

    /// Those of these clients that are dead, and have left leases and no heirs.
    pub(super) fn dead(&self, clients: Vec<ClientKey>) -> Vec<Dead> {
        let Some(files) = self.files() else { return Vec::new() };
        let is_dead = |client: &ClientKey| files.has_leases(*client) && files.is_dead(*client);
        let dead = clients.into_iter().filter(is_dead);
        dead.map(|client| Dead { client, is_certain: true }).collect()
    }

    /// This client has ended, and with it its leases, in a moment.
    pub(super) fn forget_leases(&self, client: ClientKey) {
        let Some(files) = self.files().filter(|files| files.has_leases(client)).cloned() else {
            return;
        };
        tokio::spawn(async move {
            sleep(FAREWELL).await;
            // It may have come back: it was hung up on.
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
        // It may be there after all, and come.
        dead.retain(|client| files.is_dead(*client));
        let leases = dead.iter().flat_map(|client| files.leases(*client)).collect();
        if host::revoke(&user_agent, leases).await {
            return dead.into_iter().for_each(|client| files.forget_leases(client));
        }
        sleep(PAUSE).await;
    }
}
