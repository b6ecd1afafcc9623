//! Answers that are sent in parts. Each part is made when there is room for it.

use std::{
    collections::{HashMap, hash_map},
    future::Future,
    pin::Pin,
    sync::Arc,
    vec,
};

use navlock_core::{
    AgentInfo, ClientId, Error, Inspected, Inspection, LockInfo, LockManagerSnapshot, Position,
    ResourceName,
};
use navlock_wire::{FromDaemon, Query};

use super::delegations::Looks;

/// About how long a part is, in bytes; one entry may be longer.
const PART: usize = 64 << 10;

/// How many bytes an entry takes at most besides its texts.
const OVERHEAD: usize = 64;

/// An answer that is still to come. `None` if what was read before the question has changed.
pub(super) type QueryFuture = Pin<Box<dyn Future<Output = Option<Answered>> + Send>>;

/// A question, and its answer.
pub(super) enum Answered {
    Query(Query, Result<LockManagerSnapshot, Error>),
    Inspect(Query, Arc<str>, Option<ResourceName>, Result<(Inspection, Option<Looks>), Error>),
    Position(Query, Arc<str>, ResourceName, Result<(Position, Option<Looks>), Error>),
}

/// An answer on its way.
pub(super) enum Parts {
    Snapshot(SnapshotParts),
    Inspection(InspectionParts),
}

impl Parts {
    /// The next part, and whether it is the last.
    pub(super) fn next_part(&mut self) -> (FromDaemon, bool) {
        match self {
            Self::Snapshot(parts) => parts.next_part(),
            Self::Inspection(parts) => parts.next_part(),
        }
    }
}

pub(super) struct SnapshotParts {
    query: Query,
    held: vec::IntoIter<LockInfo>,
    pending: vec::IntoIter<LockInfo>,
}

impl SnapshotParts {
    pub(super) fn new(query: Query, snapshot: LockManagerSnapshot) -> Self {
        let LockManagerSnapshot { held, pending, .. } = snapshot;
        Self { query, held: held.into_iter(), pending: pending.into_iter() }
    }

    fn next_part(&mut self) -> (FromDaemon, bool) {
        let mut room = PART;
        let mut size = |lock: &LockInfo| lock.name.as_bytes().len();
        let held = take(&mut self.held, &mut room, &mut size);
        let pending = take(&mut self.pending, &mut room, &mut size);
        let last = self.held.len() + self.pending.len() == 0;
        (FromDaemon::Snapshot { query: self.query, held, pending, last }, last)
    }
}

pub(super) struct InspectionParts {
    query: Query,
    held: vec::IntoIter<Inspected>,
    pending: vec::IntoIter<Inspected>,
    owned: vec::IntoIter<Inspected>,
    left_out: u64,
    /// The agents that were sent already, each with what it was said to want its locks for.
    sent: HashMap<ClientId, Arc<AgentInfo>>,
}

impl InspectionParts {
    pub(super) fn new(query: Query, inspection: Inspection) -> Self {
        let Inspection { held, pending, owned, left_out, .. } = inspection;
        let (held, pending, owned) = (held.into_iter(), pending.into_iter(), owned.into_iter());
        Self { query, held, pending, owned, left_out, sent: HashMap::new() }
    }

    fn next_part(&mut self) -> (FromDaemon, bool) {
        let (mut room, mut agents) = (PART, Vec::new());
        let (query, sent, left_out) = (self.query, &mut self.sent, self.left_out);
        let mut size = |Inspected { lock, agent, .. }: &Inspected| {
            let mut size = lock.name.as_bytes().len();
            let Some(info) = agent else { return size };
            if let hash_map::Entry::Vacant(first) = sent.entry(lock.client_id) {
                first.insert(Arc::clone(info));
                agents.push((lock.client_id, AgentInfo::clone(info)));
                let meta = info.meta.iter().flat_map(|(key, value)| [key, value]);
                let texts = [&info.command, &info.user, &info.host, &info.why].into_iter();
                size += texts.chain(meta).map(String::len).sum::<usize>();
            }
            size + info.why.len()
        };
        let mut next = |from| take(from, &mut room, &mut size);
        let parts = [&mut self.held, &mut self.pending, &mut self.owned].map(&mut next);
        let form = |mut one: Inspected| {
            // What it is for, if that is not what was sent with its agent.
            let sent = self.sent.get(&one.lock.client_id).map(|info| &info.why);
            let why = one.agent.take().map(|info| info.why.clone());
            (one, why.filter(|why| sent != Some(why)))
        };
        let [held, pending, owned] = parts.map(|all| all.into_iter().map(form).collect());
        let last = self.held.len() + self.pending.len() + self.owned.len() == 0;
        (FromDaemon::Inspection { query, agents, held, pending, owned, left_out, last }, last)
    }
}

/// Takes entries while there is room. The last one may be longer than the room.
fn take<T>(
    from: &mut vec::IntoIter<T>,
    room: &mut usize,
    size: &mut impl FnMut(&T) -> usize,
) -> Vec<T> {
    let mut taken = Vec::new();
    while *room > 0 {
        let Some(next) = from.next() else {
            break;
        };
        *room = room.saturating_sub(size(&next) + OVERHEAD);
        taken.push(next);
    }
    taken
}
