//! How a daemon takes over from the one before: what its clients come back with, what others have inherited
//! of them, and what their maps tell.

use std::{collections::HashMap, fs::File, mem, sync::Arc, time::Duration};

use navlock_platform::descriptor::Counted;
use navlock_wire::{ClientKey, LookChange};
use tokio::time::Instant;

use super::{
    claims::{self, Claims},
    connected::ConnectedClient,
    leases::TRIES,
    recall,
    recovery::Believed,
    shared_client::{SharedClient, lock},
    sleepers,
    state::Daemon,
};
use crate::{
    LOGS,
    client_files::{Found, Inherited},
    inherited_claims,
};

/// What those claim who have inherited locks of a client that has not come back.
struct InheritedClaims {
    key: ClientKey,
    client: SharedClient,
    inherited: Inherited,
    claims: Claims,
}

impl Daemon {
    /// Takes over from the daemon before, whose clients were found to be these.
    pub(super) async fn recover(self: &Arc<Self>, found: Found, patience: Duration) {
        let deadline = Instant::now() + patience;
        let (living, dead) = (found.living.len(), found.dead.len());
        if living + dead > 0 {
            tracing::info!(target: LOGS, living, dead, "the clients of the broker before are waited for");
        }
        self.end_leases(found.dead, TRIES);
        // What is leased runs out while others are waited for, and who is dead does not come back.
        let is_leased = self.user_agent().is_leased();
        let is_urgent = |key: &ClientKey| is_leased && !found.living.contains(key);
        let urgent = found.inherited_from.iter().copied().filter(is_urgent).collect();
        let (mut claimants, mut orphans) = tokio::join!(
            // Leases say by themselves whose a lock is.
            self.recovery().wait_for_claims(self.files(), self.maps(), !is_leased, patience),
            self.inherit(urgent, &found.inherited_files, deadline + patience),
        );
        // Who is there speaks for itself. What it has left to others may be gone by now.
        let absent = self.recovery().absent();
        let left = self.inherit(absent.clone(), &found.inherited_files, deadline + patience).await;
        orphans.extend(left);
        self.end_leases(self.dead(absent), TRIES);
        for orphan in &mut orphans {
            let claims = mem::take(&mut orphan.claims);
            claimants.insert(orphan.key, (Arc::clone(&orphan.client), claims));
        }
        // Nor do those lose anything who have not come back, and of whom their maps tell what they hold.
        let mut sleepers = Vec::new();
        for (sleeper, claims) in if is_leased { Vec::new() } else { self.sleepers() } {
            claimants.extend([sleepers::claimant(&sleeper, claims)]);
            sleepers.push(sleeper);
        }
        let (claimants, orphaned) = (claimants.into_values().collect::<Vec<_>>(), orphans.len());
        let (came_back, asleep) = (claimants.len(), sleepers.len());
        claims::settle(claimants);
        if living + dead > 0 {
            tracing::info!(target: LOGS, came_back, orphaned, asleep, "all claims are settled");
        }
        self.keep_sleepers(sleepers);
        self.maps().forget();
        for InheritedClaims { key, client, inherited, .. } in orphans {
            self.keep_orphan(key, client, Some(inherited));
        }
        self.recovery().end();
        self.end_names(found.brokers);
        self.lookers().tell(|| LookChange::Recovered);
    }

    /// What others have inherited from these, with what they claim.
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
                self.forget_inherited(key);
                continue;
            };
            let client = self.new_client();
            // What cannot be read was not written by us, or where there was no room.
            let claims = inherited.replay(&mut lock(&client));
            if let Some(mut claims) = claims {
                self.recall(key, &client, &mut claims).await;
                inherited_claims.push(InheritedClaims { key, client, inherited, claims });
            } else {
                self.forget_inherited(key);
            }
        }
        inherited_claims
    }

    /// Has no later daemon believe those who have inherited locks of this client: others may be granted these locks
    /// from here on.
    fn forget_inherited(&self, key: ClientKey) {
        if let Some(files) = self.files() {
            files.forget_inherited(key);
        }
    }

    /// Goes on with what the client of this key had through the daemon before, if the reach knows of
    /// it by itself. What stays among the claims is to be had anew.
    async fn recall(&self, key: ClientKey, client: &SharedClient, claims: &mut Claims) {
        if self.user_agent().is_leased() {
            // Who had it through us has lost it with its session.
            if self.recovery().is_first_return(key) {
                recall::recall(client, claims).await;
            }
            claims::believe(client, claims, |_| false);
        }
    }

    /// A client is there, with what it claims: goes on with what the reach still has of that, which runs
    /// out while others are waited for.
    pub(super) async fn go_on(&self, connected: &ConnectedClient, claims: &mut Claims) {
        claims::keep_claimed(&connected.client, claims);
        // It may use them for others from here on.
        lock(&connected.client).leave_slots();
        if let Some(key) = connected.key {
            self.recall(key, &connected.client, claims).await;
        }
    }

    /// Whether a client would leave anything to others if it ended now, or may do so.
    pub(super) fn has_inheritors(&self, connected: &ConnectedClient) -> bool {
        connected.key.is_some_and(|key| !matches!(self.left_by(key, &connected.client), Ok(None)))
    }

    /// A client is there, with what it claims besides; returns once it may go on.
    pub(super) async fn admit(&self, connected: &ConnectedClient, mut claims: Claims) {
        let claimed = match connected.key {
            Some(key) => {
                self.believe(key, &connected.client, &mut claims);
                self.recovery().claim(key, connected.number, &connected.client, claims)
            }
            None => Err(claims),
        };
        match claimed {
            Ok(()) => {}
            // Not a client that had something, or one that comes too late.
            Err(claims) => claims::refuse(self.delegations(), &connected.client, claims),
        }
        self.recovery().over().await;
    }

    /// Leaves of a client's claims what it can be believed to hold. What is leased was recalled.
    fn believe(&self, key: ClientKey, client: &SharedClient, claims: &mut Claims) {
        if self.user_agent().is_leased() {
            return;
        }
        match self.recovery().believed(key) {
            Believed::All => {}
            Believed::Inherited => {
                let inherited = self.files().and_then(|files| files.inherited(key).ok().flatten());
                let bytes = inherited.and_then(|mut inherited| inherited.claims().ok());
                let meant =
                    bytes.and_then(|bytes| inherited_claims::locks(&bytes)).unwrap_or_default();
                claims::believe(client, claims, |id| meant.contains(&id));
            }
            Believed::Nothing => claims::believe(client, claims, |_| false),
        }
    }
}
