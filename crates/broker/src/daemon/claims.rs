//! What clients claim from a new daemon, and how claims are settled.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet, hash_map},
    ops::ControlFlow,
    sync::Arc,
};

use bytes::BytesMut;
use navlock_core::{
    ClientId, Error, Lost, Mode, ResourceName,
    host::{Claim, RequestKind},
    look::LockId,
};
use navlock_engine::{Patience, RequestId};
use navlock_wire::{MAX_INSIDE, Moment, Sent, ToDaemon, decode_last};

use super::{
    client_record::{Claimed, ClientRecord, end_former_agent},
    delegations::Delegations,
    options::Limits,
    outcome::Outcome,
    session_ends::ProtocolError,
    shared_client::{self, SharedClient, settle_for},
};
use crate::clock;

/// How many claims beyond the limit are refused, for each claim that the limit allows. If there are
/// more, the session ends.
const REFUSED_FOR_ONE: usize = 16;

/// The claims of one client.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) locks: Vec<Claimed>,
    pub(super) requests: Vec<Claimed>,
    said: RequestNotes,
    name_bytes: usize,
    refused: usize,
    /// How far the client's clock is ahead of ours, in nanoseconds, as far as that is known.
    ahead: i64,
}

/// What the client has said of its requests.
#[derive(Debug, Default)]
struct RequestNotes {
    /// Inside which locks they were made.
    inside: Vec<(RequestId, LockId)>,
    /// How long they wait, if not for ever.
    patience: Vec<(RequestId, Patience)>,
}

/// A client with its claims.
pub(super) type Claimant = (SharedClient, Claims);

impl Claims {
    /// Those of a client whose clock is so far ahead of ours, if that is known.
    pub(super) fn by_clock(ahead: Option<i64>) -> Self {
        Self { ahead: ahead.unwrap_or(0), ..Self::default() }
    }

    /// This moment of the client's clock on ours. Nothing is claimed that is still to come.
    fn on_our_clock(&self, since: Moment) -> Moment {
        since.saturating_add_signed(self.ahead.saturating_neg()).min(clock::now())
    }

    /// Takes in a message of a client that has come back. Returns whether more are to come.
    pub(super) fn handle_message(
        &mut self,
        client: &mut ClientRecord,
        message: ToDaemon,
    ) -> Result<ControlFlow<()>, ProtocolError> {
        match message {
            ToDaemon::OpenAgent { agent, client_id, bucket } => {
                let client_id = ClientId::from_bytes(client_id);
                // A client names its agents before its locks.
                if self.locks.is_empty() {
                    end_former_agent(client, agent, client_id);
                }
                client.open_agent(agent, client_id, bucket)?;
            }
            ToDaemon::Describe { agent, info } => client.describe(agent, info)?,
            ToDaemon::Inside { request, lock } => {
                // These messages come after the requests. Messages beyond the possible number are
                // ignored.
                if self.said.inside.len() < MAX_INSIDE * self.requests.len() {
                    self.said.inside.push((request, lock));
                }
            }
            ToDaemon::Patience { request, patience } => {
                if self.said.patience.len() < self.requests.len() {
                    self.said.patience.push((request, patience));
                }
            }
            ToDaemon::Why { request, why } => client.note_why(request, &why),
            ToDaemon::ClaimLock { agent, request, name, mode, token, since } => {
                client.check_agent(agent)?;
                let has_room = self.has_room(&client.limits, &name)?;
                // Only the mode of the lock's request is known, and not the whole kind.
                let (kind, since) = (RequestKind::Wait(mode), self.on_our_clock(since));
                let claim = Claim { serial: request.serial(), name, kind, token: Some(token) };
                let lock = Claimed { agent, request, since, claim };
                if has_room && client.was_granted(&lock) {
                    self.locks.push(lock);
                } else {
                    if has_room {
                        self.refuse(&client.limits)?;
                    }
                    client.requests.settle(request, Outcome::Lost(Lost::Disconnected, None));
                }
            }
            ToDaemon::ClaimRequest { agent, request, name, kind, since } => {
                client.check_agent(agent)?;
                if !client.has_room_for_user() {
                    client.requests.settle(request, client.no_room());
                } else if kind.steals() && client.user().is_some() {
                    // Whose locks it would rob is not known before all claims are settled.
                    let why =
                        "the broker was killed before the theft; look, and steal again".to_owned();
                    client.requests.settle(request, Outcome::Failed(Error::refused(why)));
                } else if self.has_room(&client.limits, &name)? {
                    let whose = (agent, request);
                    let said = self.on_our_clock(since);
                    let since = client.waits_since(whose, (&name, kind.mode()), said);
                    let claim = Claim { serial: request.serial(), name, kind, token: None };
                    self.requests.push(Claimed { agent, request, since, claim });
                } else {
                    client.requests.settle(request, client.no_room());
                }
            }
            ToDaemon::Claimed => return Ok(ControlFlow::Break(())),
            _ => return Err(ProtocolError("it spoke before it had claimed what it had")),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Counts a claim, and returns whether the limits allow it. A client may have made more
    /// requests than the limits allow, because there was no daemon to refuse them.
    fn has_room(&mut self, limits: &Limits, name: &ResourceName) -> Result<bool, ProtocolError> {
        let claimed = self.locks.len() + self.requests.len();
        let has_room = claimed < limits.requests && self.name_bytes < limits.name_bytes;
        if has_room {
            self.name_bytes += name.as_bytes().len();
        } else {
            self.refuse(limits)?;
        }
        Ok(has_room)
    }

    /// Counts a claim that is refused.
    fn refuse(&mut self, limits: &Limits) -> Result<(), ProtocolError> {
        self.refused += 1;
        let is_too_much = self.refused > REFUSED_FOR_ONE * limits.requests;
        let why = ProtocolError("it claimed far more than anybody can have");
        if is_too_much { Err(why) } else { Ok(()) }
    }

    /// How much is claimed, and how many bytes the names of that have.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.locks.len() + self.requests.len(), self.name_bytes)
    }

    /// The requests from which the claimed locks came.
    pub(super) fn ids(&self) -> HashSet<RequestId> {
        self.locks.iter().map(|lock| lock.request).collect()
    }
}

/// The claims of processes that have inherited locks, from the bytes of their file.
pub(super) fn replay(bytes: &[u8], client: &mut ClientRecord) -> Option<Claims> {
    let mut bytes = BytesMut::from(bytes);
    let mut claims = Claims::default();
    loop {
        let Sent { message, .. } = decode_last(&mut bytes).ok()??;
        // Only locks are inherited. Another user could have written more.
        let is_of_locks = matches!(
            message,
            ToDaemon::OpenAgent { .. }
                | ToDaemon::Describe { .. }
                | ToDaemon::Why { .. }
                | ToDaemon::ClaimLock { .. }
                | ToDaemon::Claimed
        );
        if !is_of_locks && client.user().is_some() {
            return None;
        }
        if claims.handle_message(client, message).ok()?.is_break() {
            return Some(claims);
        }
    }
}

/// Settles all claims: holders hold their locks again, and waiters are queued in their order.
pub(super) fn settle(claimants: Vec<Claimant>) {
    let (mut locks, mut requests, mut said) = (Vec::new(), Vec::new(), Vec::new());
    for (client, claims) in claimants {
        said.push((Arc::clone(&client), claims.said));
        locks.extend(claims.locks.into_iter().map(|lock| (Arc::clone(&client), lock)));
        requests.extend(claims.requests.into_iter().map(|request| (Arc::clone(&client), request)));
    }

    // The newest grants come first, because an older lock that conflicts with a newer one was lost
    // already.
    locks.sort_by_key(|(_, lock)| Reverse(lock.claim.token));
    let mut newer: HashMap<_, Mode> = HashMap::new();
    locks.retain(|(client, lock)| {
        let mut client = shared_client::lock(client);
        let Some(bucket) = client.bucket(lock.agent) else {
            client.requests.settle(lock.request, Outcome::Lost(Lost::Disconnected, None));
            return false;
        };
        let mode = lock.claim.kind.mode();
        let held = match newer.entry((Arc::clone(bucket), lock.claim.name.clone())) {
            hash_map::Entry::Vacant(entry) => {
                entry.insert(mode);
                true
            }
            hash_map::Entry::Occupied(mut entry) => {
                let newest = entry.get_mut();
                let together = (*newest, mode) == (Mode::Shared, Mode::Shared);
                if !together {
                    // No older lock of this name is held either.
                    *newest = Mode::Exclusive;
                }
                together
            }
        };
        if !held {
            client.requests.settle(lock.request, Outcome::Lost(Lost::Stolen, None));
        }
        held
    });
    requests.sort_by_key(|(_, request)| request.place());
    // The oldest grants come first, so that tokens go on growing with the order of the grants.
    for (client, claimed) in locks.into_iter().rev().chain(requests) {
        shared_client::lock(&client).reinstate(claimed);
    }
    for (client, said) in said {
        note(&mut shared_client::lock(&client), said);
    }
}

/// Notes what the client has said of its requests.
fn note(client: &mut ClientRecord, said: RequestNotes) {
    for (request, patience) in said.patience {
        client.requests.note_patience(request, patience);
    }
    for (request, lock) in said.inside {
        client.requests.put_inside(request, lock);
    }
}

/// Ends the inherited locks of a client that has come back, as far as the client does not claim
/// them.
pub(super) fn keep_claimed(client: &SharedClient, claims: &Claims) {
    let mut client = shared_client::lock(client);
    // FAST: mostly nothing was inherited.
    if client.requests.len() > 0 {
        let claimed = claims.ids();
        client.keep_held(|id| claimed.contains(&id));
    }
}

/// Queues the requests of a client that comes too late, or to the same broker again.
pub(super) fn ask_anew(
    delegations: Option<&Arc<Delegations>>,
    client: &SharedClient,
    mut claims: Claims,
) {
    claims.requests.sort_by_key(Claimed::place);
    for request in claims.requests {
        settle_for(delegations, client, request.agent, &request.claim.name, request.claim.kind);
        shared_client::lock(client).reinstate(request);
    }
    note(&mut shared_client::lock(client), claims.said);
}

/// Tells the client that the locks that are not believed are lost, and leaves the others among its
/// claims.
pub(super) fn believe(
    client: &SharedClient,
    claims: &mut Claims,
    is_believed: impl Fn(RequestId) -> bool,
) {
    let mut client = shared_client::lock(client);
    claims.locks.retain(|lock| {
        // If the lock was inherited, the client still has it here.
        let is_its = is_believed(lock.request) || client.requests.contains(lock.request);
        if !is_its {
            client.requests.settle(lock.request, Outcome::Lost(Lost::Disconnected, None));
        }
        is_its
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_its_time_on_our_clock_and_none_is_still_to_come() {
        let day: i64 = 86_400_000_000_000;
        let ahead = Claims::by_clock(Some(day));
        assert_eq!(ahead.on_our_clock(u64::try_from(day).unwrap() + 7), 7);
        let unknown = Claims::by_clock(None);
        assert_eq!(unknown.on_our_clock(7), 7);
        assert!(unknown.on_our_clock(Moment::MAX) <= clock::now());
    }
}
