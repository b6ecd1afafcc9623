//! How a daemon takes over from the one before: what its clients come back with, what others have inherited
//! of them, and what their maps tell.

use std::{collections::HashMap, fs::File, mem, sync::Arc, time::Duration};

use navlock_platform::descriptor::Counted;
use navlock_wire::{ClientKey, LookChange};
use tokio::time::Instant;

use super::{
    claims::{self, Claims},
    house::{House, Stay},
    leases::TRIES,
    recall,
    recovery::Believed,
    shared_client::{SharedClient, lock},
    sleepers,
};
use crate::{
    LOGS,
    client_files::{Found, Inherited},
    testament,
};

/// Those who have inherited locks of a client that is not there.
struct Heirs {
    key: ClientKey,
    client: SharedClient,
    inherited: Inherited,
    claims: Claims,
}

impl House {
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
        let urgent = found.bequeathers.iter().copied().filter(is_urgent).collect();
        let (mut claimants, mut orphans) = tokio::join!(
            // Leases say by themselves whose a lock is.
            self.recovery().wait_for_claims(self.files(), self.maps(), !is_leased, patience),
            self.inherit(urgent, &found.testaments, deadline + patience),
        );
        // Who is there speaks for itself. What it has left to others may be gone by now.
        let absent = self.recovery().absent();
        let left = self.inherit(absent.clone(), &found.testaments, deadline + patience).await;
        orphans.extend(left);
        self.end_leases(self.dead(absent), TRIES);
        for heirs in &mut orphans {
            let claims = mem::take(&mut heirs.claims);
            claimants.insert(heirs.key, (Arc::clone(&heirs.client), claims));
        }
        // Nor is it lost what they hold of whom we know it without them.
        let mut sleepers = Vec::new();
        for (sleeper, claims) in if is_leased { Vec::new() } else { self.sleepers() } {
            claimants.extend([sleepers::claimant(&sleeper, claims)]);
            sleepers.push(sleeper);
        }
        let (claimants, heirs) = (claimants.into_values().collect::<Vec<_>>(), orphans.len());
        let (came_back, asleep) = (claimants.len(), sleepers.len());
        claims::settle(claimants);
        if living + dead > 0 {
            tracing::info!(target: LOGS, came_back, heirs, asleep, "all claims are settled");
        }
        self.keep_sleepers(sleepers);
        self.maps().forget();
        for Heirs { key, client, inherited, .. } in orphans {
            self.lodge(key, client, Some(inherited));
        }
        self.recovery().end();
        self.end_names(found.brokers);
        self.lookers().tell(|| LookChange::Recovered);
    }

    /// What others have inherited from these, with what they claim.
    async fn inherit(
        &self,
        keys: Vec<ClientKey>,
        testaments: &HashMap<ClientKey, Counted<File>>,
        deadline: Instant,
    ) -> Vec<Heirs> {
        let mut heirs = Vec::new();
        for key in keys {
            let kept = testaments.get(&key).map(Counted::get);
            let Some(mut inherited) = self.inherited(key, kept, deadline).await else {
                self.forget_heirs(key);
                continue;
            };
            let client = self.new_client();
            // What cannot be read was not written by us, or where there was no room.
            let claims = inherited.replay(&mut lock(&client));
            if let Some(mut claims) = claims {
                self.recall(key, &client, &mut claims).await;
                heirs.push(Heirs { key, client, inherited, claims });
            } else {
                self.forget_heirs(key);
            }
        }
        heirs
    }

    /// Has no later daemon believe heirs whose locks others may be granted from here on.
    fn forget_heirs(&self, key: ClientKey) {
        if let Some(files) = self.files() {
            files.forget_heirs(key);
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
    pub(super) async fn go_on(&self, stay: &Stay, claims: &mut Claims) {
        claims::keep_claimed(&stay.client, claims);
        // It may use them for others from here on.
        lock(&stay.client).leave_slots();
        if let Some(key) = stay.key {
            self.recall(key, &stay.client, claims).await;
        }
    }

    /// Whether a client would leave anything to others if it ended now, or may do so.
    pub(super) fn has_heirs(&self, stay: &Stay) -> bool {
        stay.key.is_some_and(|key| !matches!(self.left_by(key, &stay.client), Ok(None)))
    }

    /// A client is there, with what it claims besides; returns once it may go on.
    pub(super) async fn admit(&self, stay: &Stay, mut claims: Claims) {
        let claimed = match stay.key {
            Some(key) => {
                self.believe(key, &stay.client, &mut claims);
                self.recovery().claim(key, stay.room, &stay.client, claims)
            }
            None => Err(claims),
        };
        match claimed {
            Ok(()) => {}
            // Not a client that had something, or one that comes too late.
            Err(claims) => claims::refuse(self.delegations(), &stay.client, claims),
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
                let meant = bytes.and_then(|bytes| testament::meant(&bytes)).unwrap_or_default();
                claims::believe(client, claims, |id| meant.contains(&id));
            }
            Believed::Nothing => claims::believe(client, claims, |_| false),
        }
    }
}
