//! How a daemon takes over the locks of an earlier daemon: from the claims of the clients that come
//! back, from the files of inherited locks, and from the clients' maps.

use std::{
    collections::HashMap,
    fs::File,
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use navlock_core::look::Change;
use navlock_platform::descriptor::Counted;
use navlock_wire::ClientKey;

use super::{
    claims::{self, Claims},
    connected::ConnectedClient,
    held_notes::HeldNotes,
    leases::TRIES,
    orphan::KeptFor,
    reclaim,
    recovery::Believed,
    shared_client::{SharedClient, lock},
    state::Daemon,
};
use crate::{
    LOGS,
    client_files::{Found, Inherited},
    clock, inherited_claims,
};

/// The claims of the processes that have inherited locks of a client that has not come back.
struct InheritedClaims {
    key: ClientKey,
    client: SharedClient,
    inherited: Inherited,
    claims: Claims,
}

impl Daemon {
    /// Takes over from the earlier daemon. `found` are the files of that daemon's clients.
    pub(super) async fn recover(self: &Arc<Self>, found: Found, recovery_time: Duration) {
        let deadline = clock::instant() + recovery_time;
        let (living, dead) = (found.living.len(), found.dead.len());
        if living + dead > 0 {
            tracing::info!(target: LOGS, living, dead, "waiting for the clients of the earlier broker");
        }
        self.end_leases(found.dead, TRIES);
        // Leases run out while clients are waited for, and a dead client does not come back. So its
        // inherited locks are reclaimed first.
        let is_leased = self.user_agent.is_leased();
        let is_urgent = |key: &ClientKey| is_leased && !found.living.contains(key);
        let urgent = found.inherited_from.iter().copied().filter(is_urgent).collect();
        let (mut claimants, mut orphans) = tokio::join!(
            // Where locks are leased, no client has to be given up: the leases tell who has a lock.
            self.recovery.wait_for_claims(self.files(), &self.maps, !is_leased, recovery_time),
            self.inherit(urgent, &found.inherited_files, deadline + recovery_time),
        );
        // A client that has come back claims its locks itself, so only the inherited locks of
        // absent clients are looked for.
        let absent = self.recovery.absent();
        let left =
            self.inherit(absent.clone(), &found.inherited_files, deadline + recovery_time).await;
        orphans.extend(left);
        self.forget_notes_of_dead(&found.noted, &absent, &orphans);
        self.end_leases(self.dead(absent), TRIES);
        for orphan in &mut orphans {
            let claims = mem::take(&mut orphan.claims);
            claimants.insert(orphan.key, (Arc::clone(&orphan.client), claims));
        }
        // Clients that have not come back keep their locks as well, if their maps tell what they
        // hold.
        let mut sleepers = Vec::new();
        for (sleeper, claims) in if is_leased { Vec::new() } else { self.sleepers() } {
            claimants.insert(sleeper.key, (Arc::clone(&sleeper.client), claims));
            sleepers.push(sleeper);
        }
        let (claimants, orphaned) = (claimants.into_values().collect::<Vec<_>>(), orphans.len());
        let (came_back, asleep) = (claimants.len(), sleepers.len());
        claims::settle(claimants);
        if living + dead > 0 {
            tracing::info!(target: LOGS, came_back, orphaned, asleep, "all claims are settled");
        }
        self.keep_sleepers(sleepers);
        self.maps.forget();
        for InheritedClaims { key, client, inherited, .. } in orphans {
            self.keep(key, client, Some(inherited), KeptFor::Inheritors);
        }
        self.recovery.end();
        self.end_names(found.brokers);
        self.lookers.tell(|| Change::Recovered);
    }

    /// Reads the claims of the processes that have inherited locks of these clients, and reclaims the
    /// locks if they are leased. Forgets the files of inherited locks that are gone or cannot be read.
    async fn inherit(
        &self,
        keys: Vec<ClientKey>,
        inherited_files: &HashMap<ClientKey, Counted<File>>,
        deadline: Instant,
    ) -> Vec<InheritedClaims> {
        let mut inherited_claims = Vec::new();
        for key in keys {
            let kept = inherited_files.get(&key).map(Counted::get);
            let Some(mut inherited) = self.inherited(key, kept, deadline).await else {
                self.files().forget_inherited(key);
                continue;
            };
            let client = self.new_client();
            if let Some(guests) = self.guests() {
                let guest = guests.readmit(key);
                guest.user().is_named().await;
                let notes = self.files().open_notes(key).and_then(HeldNotes::of).ok();
                lock(&client).begin(None, key, self.files().clone());
                lock(&client).belongs_to(guest, notes);
            }
            // A file that cannot be read was not written by navlock, or was written only in part
            // because there was no room.
            let claims = inherited.replay(&mut lock(&client));
            if let Some(mut claims) = claims {
                lock(&client).has_claimed();
                self.reclaim(key, &client, &mut claims).await;
                inherited_claims.push(InheritedClaims { key, client, inherited, claims });
            } else {
                self.files().forget_inherited(key);
            }
        }
        inherited_claims
    }

    /// Removes the notes of clients that have not come back, and whose locks nobody has inherited.
    fn forget_notes_of_dead(
        &self,
        noted: &[ClientKey],
        absent: &[ClientKey],
        orphans: &[InheritedClaims],
    ) {
        let clients = lock(&self.clients);
        let here = |key: &ClientKey| {
            clients.connected.values().any(|(connected, _)| connected == key)
                || orphans.iter().any(|orphan| orphan.key == *key)
        };
        let gone: Vec<_> = noted.iter().chain(absent).filter(|key| !here(key)).copied().collect();
        drop(clients);
        for key in gone {
            self.files().forget_notes_of_dead(key);
        }
    }

    /// Reclaims the locks and requests that the client had through the earlier daemon, if the reach
    /// keeps them. The requests that remain among the claims have to be made anew.
    async fn reclaim(&self, key: ClientKey, client: &SharedClient, claims: &mut Claims) {
        if self.user_agent.is_leased() {
            // Locks that the client had through this daemon have ended with its session.
            if self.recovery.is_first_return(key) {
                reclaim::reclaim(client, claims).await;
            }
            claims::believe(client, claims, |_| false);
        }
    }

    /// Called when a client has sent its claims: reclaims at once what the reach still has of them,
    /// because leases run out while the daemon waits for other clients.
    pub(super) async fn go_on(&self, connected: &ConnectedClient, claims: &mut Claims) {
        claims::keep_claimed(&connected.client, claims);
        self.reclaim(connected.key, &connected.client, claims).await;
    }

    /// Whether others would inherit locks of this client if it ended now, as far as one can tell.
    pub(super) fn has_inheritors(&self, connected: &ConnectedClient) -> bool {
        !matches!(self.left_by(connected.key, &connected.client), Ok(None))
    }

    /// Takes in the remaining claims of a client; returns once the client may go on.
    pub(super) async fn admit(&self, connected: &ConnectedClient, mut claims: Claims) {
        let ConnectedClient { key, number, client, .. } = connected;
        self.believe(*key, client, &mut claims);
        // The client had no locks before, or comes too late.
        if let Err(mut claims) = self.recovery.claim(*key, *number, client, claims) {
            claims::believe(client, &mut claims, |_| false);
            // What waits is asked for anew, after what others have sent before.
            self.next_turn.passes().await;
            // From here on the client may use its slots for other locks. Up to here its map told it of a theft.
            lock(client).requests.leave_slots();
            claims::ask_anew(self.delegations(), client, claims);
        }
        self.recovery.over().await;
    }

    /// Removes from a client's claims the locks that the client is not believed to hold. Leased
    /// locks were reclaimed already.
    fn believe(&self, key: ClientKey, client: &SharedClient, claims: &mut Claims) {
        if self.user_agent.is_leased() {
            return;
        }
        match self.recovery.believed(key) {
            Believed::All => {}
            Believed::Inherited => {
                let inherited = self.files().inherited(key).ok().flatten();
                let bytes = inherited.and_then(|mut inherited| inherited.claims().ok());
                let meant =
                    bytes.and_then(|bytes| inherited_claims::locks(&bytes)).unwrap_or_default();
                claims::believe(client, claims, |id| meant.contains(&id));
            }
            Believed::Nothing => claims::believe(client, claims, |_| false),
        }
    }
}
