//! What clients claim from a new daemon, and how claims are settled.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet, hash_map},
    ops::ControlFlow,
    sync::Arc,
};

use bytes::BytesMut;
use navlock_core::{ClientId, Lost, Mode, ResourceName};
use navlock_engine::RequestId;
use navlock_wire::{DaemonCodec, LockId, MAX_INSIDE, ToDaemon};
use tokio_util::codec::Decoder;

use super::{
    client::{ClaimedLock, ClaimedRequest, Client},
    delegations::Delegations,
    ends::Nonsense,
    options::Limits,
    outcome::Outcome,
    shared_client::{self, SharedClient, settle_for},
};

/// For one claim that may be, so many that may not are told so.
const REFUSED_FOR_ONE: usize = 16;

/// The claims of one client.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) locks: Vec<ClaimedLock>,
    pub(super) requests: Vec<ClaimedRequest>,
    said: RequestNotes,
    name_bytes: usize,
    refused: usize,
}

/// What was said of requests.
#[derive(Debug, Default)]
struct RequestNotes {
    /// Inside which locks they were made.
    inside: Vec<(RequestId, LockId)>,
    /// Those that may give up by themselves.
    may_give_up: Vec<RequestId>,
}

/// A client with its claims.
pub(super) type Claimant = (SharedClient, Claims);

impl Claims {
    /// Takes in a message of a client that has come back. Whether there are more to come.
    pub(super) fn hear(
        &mut self,
        client: &mut Client,
        message: ToDaemon,
    ) -> Result<ControlFlow<()>, Nonsense> {
        match message {
            ToDaemon::OpenAgent { agent, client_id, bucket } => {
                client.open_agent(agent, ClientId::from_bytes(client_id), bucket)?;
            }
            ToDaemon::Describe { agent, info } => client.describe(agent, info)?,
            ToDaemon::Annotate { agent, meta } => client.annotate(agent, meta)?,
            ToDaemon::Inside { request, lock } => {
                // Said after the requests. More than can be is nothing that anybody needs to know.
                if self.said.inside.len() < MAX_INSIDE * self.requests.len() {
                    self.said.inside.push((request, lock));
                }
            }
            ToDaemon::MayGiveUp { request } => {
                if self.said.may_give_up.len() < self.requests.len() {
                    self.said.may_give_up.push(request);
                }
            }
            ToDaemon::ClaimLock { agent, request, name, mode, token, since } => {
                client.check_agent(agent)?;
                if self.has_room(client.limits(), &name)? {
                    self.locks.push(ClaimedLock { agent, request, name, mode, token, since });
                } else {
                    client.settle(request, Outcome::Lost(Lost::Disconnected, None));
                }
            }
            ToDaemon::ClaimRequest { agent, request, name, kind, since } => {
                client.check_agent(agent)?;
                if self.has_room(client.limits(), &name)? {
                    self.requests.push(ClaimedRequest { agent, request, name, kind, since });
                } else {
                    client.settle(request, client.no_room());
                }
            }
            ToDaemon::Claimed => return Ok(ControlFlow::Break(())),
            _ => return Err(Nonsense("it spoke before it had claimed what it had")),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Counts one more, and whether it is one that may be: a client may have asked for more than
    /// that while there was no daemon to refuse it.
    fn has_room(&mut self, limits: &Limits, name: &ResourceName) -> Result<bool, Nonsense> {
        let claimed = self.locks.len() + self.requests.len();
        let has_room = claimed < limits.requests && self.name_bytes < limits.name_bytes;
        if has_room {
            self.name_bytes += name.as_bytes().len();
        } else {
            self.refused += 1;
            if self.refused > REFUSED_FOR_ONE * limits.requests {
                return Err(Nonsense("it claimed far more than anybody can have"));
            }
        }
        Ok(has_room)
    }

    /// The requests that the locks came from.
    pub(super) fn ids(&self) -> HashSet<RequestId> {
        self.locks.iter().map(|lock| lock.request).collect()
    }
}

/// What is claimed in these bytes by those who have inherited locks.
pub(super) fn replay(bytes: &[u8], client: &mut Client) -> Option<Claims> {
    let (mut codec, mut bytes) = (DaemonCodec::default(), BytesMut::from(bytes));
    let mut claims = Claims::default();
    loop {
        let message = codec.decode_eof(&mut bytes).ok()??;
        if claims.hear(client, message).ok()?.is_break() {
            return Some(claims);
        }
    }
}

/// Has all who held hold again, and all who waited wait in their order.
pub(super) fn settle(claimants: Vec<Claimant>) {
    let (mut locks, mut requests, mut said) = (Vec::new(), Vec::new(), Vec::new());
    for (client, claims) in claimants {
        said.push((Arc::clone(&client), claims.said));
        locks.extend(claims.locks.into_iter().map(|lock| (Arc::clone(&client), lock)));
        requests.extend(claims.requests.into_iter().map(|request| (Arc::clone(&client), request)));
    }

    // The newest grants first: what excludes one of them was lost before.
    locks.sort_by_key(|(_, lock)| Reverse(lock.token));
    let mut newer: HashMap<_, Mode> = HashMap::new();
    locks.retain(|(client, lock)| {
        let mut client = shared_client::lock(client);
        let Some(bucket) = client.bucket(lock.agent) else {
            client.settle(lock.request, Outcome::Lost(Lost::Disconnected, None));
            return false;
        };
        let held = match newer.entry((Arc::clone(bucket), lock.name.clone())) {
            hash_map::Entry::Vacant(entry) => {
                entry.insert(lock.mode);
                true
            }
            hash_map::Entry::Occupied(mut entry) => {
                let newest = entry.get_mut();
                let together = (*newest, lock.mode) == (Mode::Shared, Mode::Shared);
                if !together {
                    // Nor is anything that is older than this one.
                    *newest = Mode::Exclusive;
                }
                together
            }
        };
        if !held {
            client.settle(lock.request, Outcome::Lost(Lost::Stolen, None));
        }
        held
    });
    // The oldest first, so that tokens go on growing with the order of the grants.
    for (client, lock) in locks.into_iter().rev() {
        shared_client::lock(&client).reinstate(lock);
    }

    requests.sort_by_key(|(_, request)| (request.since, request.request.serial()));
    for (client, request) in requests {
        shared_client::lock(&client).requeue(request);
    }
    for (client, said) in said {
        note(&mut shared_client::lock(&client), said);
    }
}

/// Notes what was said of the requests of a client.
fn note(client: &mut Client, said: RequestNotes) {
    for request in said.may_give_up {
        client.note_may_give_up(request);
    }
    for (request, lock) in said.inside {
        client.put_inside(request, lock);
    }
}

/// Ends what others had inherited of a client that has come back and does not claim it.
pub(super) fn keep_claimed(client: &SharedClient, claims: &Claims) {
    let mut client = shared_client::lock(client);
    // FAST: mostly nobody had.
    if !client.is_empty() {
        let claimed = claims.ids();
        client.keep_held(|id| claimed.contains(&id));
    }
}

/// Tells a client that comes too late what it has lost, and has it wait anew.
pub(super) fn refuse(
    delegations: Option<&Arc<Delegations>>,
    client: &SharedClient,
    mut claims: Claims,
) {
    believe(client, &mut claims, |_| false);
    claims.requests.sort_by_key(|request| (request.since, request.request.serial()));
    for request in claims.requests {
        settle_for(delegations, client, request.agent, &request.name, request.kind);
        shared_client::lock(client).requeue(request);
    }
    note(&mut shared_client::lock(client), claims.said);
}

/// Tells the client that the locks of which this is not true are lost, and leaves the others among
/// its claims.
pub(super) fn believe(
    client: &SharedClient,
    claims: &mut Claims,
    is_believed: impl Fn(RequestId) -> bool,
) {
    let mut client = shared_client::lock(client);
    claims.locks.retain(|lock| {
        // There it is still, if others had inherited it.
        let is_its = is_believed(lock.request) || client.contains(lock.request);
        if !is_its {
            client.settle(lock.request, Outcome::Lost(Lost::Disconnected, None));
        }
        is_its
    });
}
