//! Reclaims the locks and requests that clients had through the earlier daemon, if the reach still
//! has them.
//!
//! A leased lock outlives the daemon: the lock is held until its lease ends, and no daemon can
//! grant it anew before that. The lease runs out meanwhile, so the lock is reclaimed as soon as its
//! client is back. A claimed lock that is not found is lost. A claimed request that is not found is
//! made anew, in its order among the requests of all clients.

use std::{collections::HashSet, sync::Arc};

use futures_util::future::join_all;
use navlock_core::{LockManager, host};
use navlock_engine::RequestId;

use super::{
    claims::Claims,
    client_record::Claimed,
    requests::RequestOwner,
    shared_client::{self, SharedClient},
};

/// An agent with its claims.
struct Returning {
    of: Arc<RequestOwner>,
    locks: LockManager,
    had: Vec<Claimed>,
}

/// Takes over the claimed locks and requests that are found, and leaves the others among the
/// claims.
///
/// # Cancel safety
///
/// To drop the future ends the locks and requests that were found and that the client does not have
/// yet. The others end with the client.
pub(super) async fn reclaim(client: &SharedClient, claims: &mut Claims) {
    let returning = returning(client, claims);
    let found = join_all(returning.into_iter().map(|agent| agent.reclaim(client))).await;
    let found: HashSet<RequestId> = found.into_iter().flatten().collect();
    claims.locks.retain(|lock| !found.contains(&lock.request));
    claims.requests.retain(|request| !found.contains(&request.request));
}

/// All agents of a client. Agents that claim nothing are included, so that their former locks are
/// released now, and not when their lease ends.
fn returning(client: &SharedClient, claims: &Claims) -> Vec<Returning> {
    let client = shared_client::lock(client);
    let agents = client.agents().map(|(of, locks)| {
        let all = claims.locks.iter().chain(&claims.requests);
        let theirs = all.filter(|claimed| claimed.agent == of.agent);
        let mut had: Vec<_> = theirs.cloned().collect();
        // The claims are put into the order of the requests.
        had.sort_by_key(|claimed| claimed.request.serial());
        Returning { of: Arc::clone(of), locks: locks.clone(), had }
    });
    agents.collect()
}

impl Returning {
    /// Gives the client the locks and requests that are found. Returns their ids.
    async fn reclaim(self, client: &SharedClient) -> Vec<RequestId> {
        let Self { of, locks, had } = self;
        let claims = had.iter().map(|claimed| claimed.claim.clone()).collect();
        // An agent that was terminated has nothing.
        let reclaimed = host::reclaim(&locks, claims).await.unwrap_or_default();
        let (mut found, mut held) = (Vec::new(), Vec::new());
        for (Claimed { request, since, claim, .. }, reclaimed) in had.into_iter().zip(reclaimed) {
            let Some(reclaimed) = reclaimed else { continue };
            if let Some(token) = claim.token {
                held.push((request, since, token, reclaimed));
            } else {
                shared_client::lock(client).requests.go_on(request, &of, since, reclaimed);
                found.push(request);
            }
        }
        for (request, since, token, reclaimed) in held {
            // The request is answered when the lease has been renewed, or has ended.
            let guard = reclaimed.await.ok().flatten();
            if let Some(guard) = guard.filter(|guard| guard.fencing_token() == token) {
                shared_client::lock(client).requests.hold(request, &of, since, guard);
                found.push(request);
            }
        }
        found
    }
}
