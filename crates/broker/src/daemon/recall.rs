//! Going on with what clients had through the daemon before, where the reach still has it.
//!
//! What is leased outlives the daemon that it was asked of: until the lease ends it is held, and no
//! daemon can grant it anew. So it is recalled, as soon as its client is back, because its lease runs
//! out meanwhile. A lock that is not found is lost. A request that is not found is made anew, in its
//! turn with those of all clients.

use std::{collections::HashSet, sync::Arc};

use futures_util::future::join_all;
use navlock_core::{
    LockManager,
    host::{self, Claim, RequestKind},
};
use navlock_engine::RequestId;
use navlock_wire::Moment;

use super::{
    claims::Claims,
    requests::RequestOwner,
    shared_client::{self, SharedClient},
};

/// An agent with what it says to have had.
struct Returning {
    of: Arc<RequestOwner>,
    locks: LockManager,
    had: Vec<RecalledEntry>,
}

/// What an agent says to have had.
struct RecalledEntry {
    request: RequestId,
    since: Moment,
    claim: Claim,
}

/// Goes on with what is found of these claims, and leaves the others.
///
/// # Cancel safety
///
/// Dropping the future ends what was found and is not in the client's hands yet; the rest ends with
/// the client.
pub(super) async fn recall(client: &SharedClient, claims: &mut Claims) {
    let returning = returning(client, claims);
    let found = join_all(returning.into_iter().map(|agent| agent.recall(client))).await;
    let found: HashSet<RequestId> = found.into_iter().flatten().collect();
    claims.locks.retain(|lock| !found.contains(&lock.request));
    claims.requests.retain(|request| !found.contains(&request.request));
}

/// All agents of a client, also those that claim nothing: what they had is to be released now, and
/// not when its lease ends.
fn returning(client: &SharedClient, claims: &Claims) -> Vec<Returning> {
    let client = shared_client::lock(client);
    let agents = client.agents().map(|(of, locks)| {
        let agent = of.agent;
        let held =
            claims.locks.iter().filter(|lock| lock.agent == agent).map(|lock| RecalledEntry {
                request: lock.request,
                since: lock.since,
                claim: Claim {
                    name: lock.name.clone(),
                    // Of what it asked for, the mode is left.
                    kind: RequestKind::Wait(lock.mode),
                    token: Some(lock.token),
                    since: lock.since,
                },
            });
        let pending = claims.requests.iter().filter(|request| request.agent == agent);
        let pending = pending.map(|request| RecalledEntry {
            request: request.request,
            since: request.since,
            claim: Claim {
                name: request.name.clone(),
                kind: request.kind,
                token: None,
                since: request.since,
            },
        });
        let mut had: Vec<RecalledEntry> = held.chain(pending).collect();
        // In the order of the requests.
        had.sort_by_key(|had| had.request.serial());
        Returning { of: Arc::clone(of), locks: locks.clone(), had }
    });
    agents.collect()
}

impl Returning {
    /// What is found of it is the client's again. Which requests those are.
    async fn recall(self, client: &SharedClient) -> Vec<RequestId> {
        let Self { of, locks, had } = self;
        let claims = had.iter().map(|had| had.claim.clone()).collect();
        // As if there were nothing, if it has been terminated.
        let recalled = host::recall(&locks, claims).await.unwrap_or_default();
        let (mut found, mut held) = (Vec::new(), Vec::new());
        for (RecalledEntry { request, since, claim }, recalled) in had.into_iter().zip(recalled) {
            let Some(recalled) = recalled else {
                continue;
            };
            if let Some(token) = claim.token {
                held.push((request, since, token, recalled));
            } else {
                shared_client::lock(client).requests_mut().go_on(request, &of, since, recalled);
                found.push(request);
            }
        }
        for (request, since, token, recalled) in held {
            // Answered once the lease was renewed, or has ended.
            let guard = recalled.await.ok().flatten();
            if let Some(guard) = guard.filter(|guard| guard.fencing_token() == token) {
                shared_client::lock(client).requests_mut().hold(request, &of, since, guard);
                found.push(request);
            }
        }
        found
    }
}
