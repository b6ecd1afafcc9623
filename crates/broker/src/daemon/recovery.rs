//! Taking over from a daemon that was killed: who held what, and who waited where.
//!
//! A new daemon finds in the [files](crate::client_files) who was connected to the last one and
//! still lives. It waits for these to come back and say what they had, for ten seconds at most, and
//! grants nothing to anybody until then. Then it [settles](settle) all claims at once.
//!
//! - Locks come first. Two claims may exclude each other, when one holder was stolen from and never
//!   heard of it; the larger fencing token is the later grant, and that one holds.
//! - Requests follow in the order in which they were made, by the clock that all clients share. A
//!   request that another process knew of was made before that process made its own, so nobody is
//!   overtaken who could tell. (The daemon's own order among requests that crossed on their way to
//!   it is gone with it.)
//! - Who comes later than that has lost its locks, and its requests go to the end of the queues.
//!
//! Where the user agent [is leased](navlock_core::UserAgent::is_leased) its reach knows all this by
//! itself for a while, and better: then what it still has is [recalled](super::recall) as soon as a
//! client is back, and there are only requests to settle that it has not heard of.
//!
//! An answer that was on its way when the daemon was killed may have been lost. The client that has
//! not heard of a grant claims a request, and will be granted it again; nobody else has come in
//! between. A release may have been lost as well, but who has released claims nothing.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet, hash_map},
    mem,
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::BytesMut;
use navlock_core::{ClientId, Lost, Mode, ResourceName};
use navlock_engine::RequestId;
use navlock_wire::{ClientCodec, ClientKey, DaemonCodec, ToDaemon};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, interval},
};
use tokio_util::codec::{Decoder, Encoder};

use super::{
    Limits,
    client::{ClaimedLock, ClaimedRequest, Client, Nonsense},
    house::{self, SharedClient},
    requests::Outcome,
};
use crate::client_files::{ClientFiles, Found};

/// How often it is looked whether those who are waited for still live.
const LOOK: Duration = Duration::from_millis(50);

/// For one claim that may be, so many that may not are told so.
const REFUSED_FOR_ONE: usize = 16;

/// The claims of one client.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) locks: Vec<ClaimedLock>,
    pub(super) requests: Vec<ClaimedRequest>,
    name_bytes: usize,
    refused: usize,
}

/// A client with its claims.
pub(super) type Claimant = (SharedClient, Claims);

/// The time between the start of a daemon and its first grant.
pub(super) struct Recovery {
    state: Mutex<State>,
    arrived: Notify,
    over: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// Those who lived when the daemon started and have not come back.
    awaited: HashSet<ClientKey>,
    /// Those who have come back and are saying what they had.
    claiming: HashMap<ClientKey, u64>,
    claimants: HashMap<ClientKey, Claimant>,
    /// Those of whom something was found when the daemon started, and who have not been here since.
    found: HashSet<ClientKey>,
    over: bool,
}

impl Recovery {
    /// Of a daemon that finds these.
    pub(super) fn new(found: &Found) -> Self {
        let state = State {
            awaited: found.living.iter().copied().collect(),
            found: found.living.iter().chain(&found.bequeathers).copied().collect(),
            ..State::default()
        };
        Self { state: Mutex::new(state), arrived: Notify::new(), over: watch::Sender::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client has come back, and begins to say what it had.
    pub(super) fn begin(&self, key: ClientKey, room: u64) {
        self.state().claiming.insert(key, room);
    }

    /// Whether what this client has was had through an earlier daemon. Once: what it has from here
    /// on, it has through us.
    pub(super) fn is_first_return(&self, key: ClientKey) -> bool {
        self.state().found.remove(&key)
    }

    /// It has gone again, and has not come back since.
    pub(super) fn withdraw(&self, key: ClientKey, room: u64) {
        let mut state = self.state();
        if state.claiming.get(&key) == Some(&room) {
            state.claiming.remove(&key);
            self.arrived.notify_one();
        }
    }

    /// A client is there, with what it claims. It gets its claims back if it is too late.
    pub(super) fn claim(
        &self,
        key: ClientKey,
        client: &SharedClient,
        claims: Claims,
    ) -> Result<(), Claims> {
        let mut state = self.state();
        if state.over {
            return Err(claims);
        }
        state.awaited.remove(&key);
        state.claiming.remove(&key);
        state.claimants.insert(key, (Arc::clone(client), claims));
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits until claims are settled and locks are granted.
    pub(super) async fn over(&self) {
        // The sender is here, so that this is no error.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// Waits until all who live have come back, or until `deadline`. Who has come.
    pub(super) async fn wait_for_claims(
        &self,
        files: Option<&ClientFiles>,
        deadline: Instant,
    ) -> HashMap<ClientKey, Claimant> {
        let mut look = interval(LOOK);
        while !self.may_end(Instant::now() >= deadline) {
            tokio::select! {
                () = self.arrived.notified() => {}
                _ = look.tick() => {
                    if let Some(files) = files {
                        // Not under the lock: there may be many.
                        let awaited: Vec<_> = self.state().awaited.iter().copied().collect();
                        let dead = awaited.into_iter().filter(|client| !files.lives(*client));
                        for client in dead.collect::<Vec<_>>() {
                            self.state().awaited.remove(&client);
                        }
                    }
                }
            }
        }
        let mut state = self.state();
        state.over = true;
        mem::take(&mut state.claimants)
    }

    fn may_end(&self, is_late: bool) -> bool {
        let state = self.state();
        // Who has come in time is heard to the end, for which a newcomer has its own time: it
        // thinks that it holds what it claims, until it is told that it does not.
        state.claiming.is_empty() && (state.awaited.is_empty() || is_late)
    }

    /// Has everybody go on.
    pub(super) fn end(&self) {
        self.over.send_replace(true);
    }
}

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
            ToDaemon::ClaimLock { agent, request, name, mode, token, since } => {
                client.check_agent(agent)?;
                if self.has_room(client.limits(), &name)? {
                    self.locks.push(ClaimedLock { agent, request, name, mode, token, since });
                } else {
                    client.settle(request, Outcome::Lost(Lost::Disconnected));
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

/// The locks that are claimed in these bytes.
pub(super) fn meant(bytes: &[u8]) -> Option<HashSet<RequestId>> {
    let (mut codec, mut bytes) = (DaemonCodec::default(), BytesMut::from(bytes));
    let mut meant = HashSet::new();
    loop {
        match codec.decode_eof(&mut bytes).ok()?? {
            ToDaemon::ClaimLock { request, .. } => _ = meant.insert(request),
            ToDaemon::Claimed => return Some(meant),
            _ => {}
        }
    }
}

/// The same claims without this lock.
pub(super) fn without(bytes: &[u8], lost: RequestId) -> BytesMut {
    let (mut hears, mut says) = (DaemonCodec::default(), ClientCodec::default());
    let (mut bytes, mut kept) = (BytesMut::from(bytes), BytesMut::new());
    while let Ok(Some(message)) = hears.decode_eof(&mut bytes) {
        let is_lost = matches!(&message, ToDaemon::ClaimLock { request, .. } if *request == lost);
        if !is_lost {
            // It has been in a frame.
            let _ = says.encode(&message, &mut kept);
        }
    }
    kept
}

/// Has all who held hold again, and all who waited wait in their order.
pub(super) fn settle(claimants: Vec<Claimant>) {
    let (mut locks, mut requests) = (Vec::new(), Vec::new());
    for (client, claims) in claimants {
        locks.extend(claims.locks.into_iter().map(|lock| (Arc::clone(&client), lock)));
        requests.extend(claims.requests.into_iter().map(|request| (Arc::clone(&client), request)));
    }

    // The newest grants first: what excludes one of them was lost before.
    locks.sort_by_key(|(_, lock)| Reverse(lock.token));
    let mut newer: HashMap<_, Mode> = HashMap::new();
    locks.retain(|(client, lock)| {
        let mut client = house::lock(client);
        let Some(bucket) = client.bucket(lock.agent) else {
            client.settle(lock.request, Outcome::Lost(Lost::Disconnected));
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
            client.settle(lock.request, Outcome::Lost(Lost::Stolen));
        }
        held
    });
    // The oldest first, so that tokens go on growing with the order of the grants.
    for (client, lock) in locks.into_iter().rev() {
        house::lock(&client).reinstate(lock);
    }

    requests.sort_by_key(|(_, request)| (request.since, request.request.serial()));
    for (client, request) in requests {
        house::lock(&client).requeue(request);
    }
}

/// Ends what others had inherited of a client that has come back and does not claim it.
pub(super) fn keep_claimed(client: &SharedClient, claims: &Claims) {
    let mut client = house::lock(client);
    // FAST: mostly nobody had.
    if !client.is_empty() {
        let claimed = claims.ids();
        client.keep_held(|id| claimed.contains(&id));
    }
}

/// Tells a client that comes too late what it has lost, and has it wait anew.
pub(super) fn refuse(client: &SharedClient, mut claims: Claims) {
    let mut client = house::lock(client);
    for lock in claims.locks {
        // There it is still, if others had inherited it.
        if !client.contains(lock.request) {
            client.settle(lock.request, Outcome::Lost(Lost::Disconnected));
        }
    }
    claims.requests.sort_by_key(|request| (request.since, request.request.serial()));
    for request in claims.requests {
        client.requeue(request);
    }
}
