//! Answers that are sent in parts. Each part is made when there is room for it.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    vec,
};

use navlock_core::{
    AgentInfo, ClientId, Error, FencingToken, Inspected, Inspection, LockInfo, LockManagerSnapshot,
    Owned, Position, ResourceName,
};
use navlock_wire::{FromDaemon, InspectionEntry, MAX_TEXT, OwnedEntry, Query, SnapshotEntry};

use super::delegations::Looks;
use crate::{clock::milliseconds, convert::to_wire};

/// About how long a part is, in bytes; one entry may be longer.
const PART: usize = 64 << 10;

/// How many bytes an entry takes at most besides its texts.
const OVERHEAD: usize = 64;

/// An answer that is still to come.
pub(super) type QueryFuture = Pin<Box<dyn Future<Output = Answered> + Send>>;

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
        let held = take(&mut self.held, &mut room, &mut size, entry);
        let pending = take(&mut self.pending, &mut room, &mut size, entry);
        let last = self.held.len() + self.pending.len() == 0;
        (FromDaemon::Snapshot { query: self.query, held, pending, last }, last)
    }
}

pub(super) struct InspectionParts {
    query: Query,
    held: vec::IntoIter<Inspected>,
    pending: vec::IntoIter<Inspected>,
    owned: vec::IntoIter<Owned>,
    /// The agents that were sent already.
    sent: HashSet<ClientId>,
}

impl InspectionParts {
    pub(super) fn new(query: Query, inspection: Inspection) -> Self {
        let Inspection { held, pending, owned, .. } = inspection;
        let (held, pending, owned) = (held.into_iter(), pending.into_iter(), owned.into_iter());
        Self { query, held, pending, owned, sent: HashSet::new() }
    }

    fn next_part(&mut self) -> (FromDaemon, bool) {
        let (mut room, mut agents) = (PART, Vec::new());
        let (query, sent) = (self.query, &mut self.sent);
        let mut size = |lock: &LockInfo, agent: Option<&AgentInfo>| {
            let mut size = lock.name.as_bytes().len();
            if let Some(info) = agent.filter(|_| sent.insert(lock.client_id)) {
                agents.push((lock.client_id.to_bytes(), to_wire(info)));
                size += info.command.len() + info.user.len() + info.host.len() + info.why.len();
            }
            size
        };
        if self.owned.len() > 0 {
            let mut size = |owned: &Owned| size(&owned.lock, owned.agent.as_deref());
            let names = take(&mut self.owned, &mut room, &mut size, owned_entry);
            return (FromDaemon::Owned { query, agents, names }, false);
        }
        let mut size = |one: &Inspected| size(&one.lock, one.agent.as_deref());
        let held = take(&mut self.held, &mut room, &mut size, inspection_entry);
        let pending = take(&mut self.pending, &mut room, &mut size, inspection_entry);
        let last = self.held.len() + self.pending.len() == 0;
        (FromDaemon::Inspection { query, agents, held, pending, last }, last)
    }
}

/// Takes entries while there is room. The last one may be longer than the room.
fn take<T, U>(
    from: &mut vec::IntoIter<T>,
    room: &mut usize,
    size: &mut impl FnMut(&T) -> usize,
    form: impl Fn(T) -> U,
) -> Vec<U> {
    let mut taken = Vec::new();
    while *room > 0 {
        let Some(next) = from.next() else {
            break;
        };
        *room = room.saturating_sub(size(&next) + OVERHEAD);
        taken.push(form(next));
    }
    taken
}

fn entry(lock: LockInfo) -> SnapshotEntry {
    let LockInfo { name, mode, client_id, .. } = lock;
    SnapshotEntry { name, mode, client_id: client_id.to_bytes() }
}

/// The answer to a question where somebody stands in a queue. It has one part.
pub(super) fn position(query: Query, position: Position) -> FromDaemon {
    let Position { holder, holders, ahead, .. } = position;
    let agent = holder.as_ref().and_then(|holder| holder.agent.as_deref()).map(to_wire);
    FromDaemon::Position {
        query,
        holder: holder.map(inspection_entry),
        agent,
        holders: holders as u64,
        ahead: ahead.map(|ahead| ahead as u64),
    }
}

/// The messages that must come before an inspection: how much it leaves out, and what its agents and
/// requests say of themselves beyond the entries.
pub(super) fn meta(query: Query, inspection: &Inspection) -> Vec<FromDaemon> {
    let Inspection { held, pending, owned, left_out, .. } = inspection;
    let both = held.iter().chain(pending).map(|one| (&one.lock, &one.agent));
    let all = both.chain(owned.iter().map(|one| (&one.lock, &one.agent)));
    let said = all.filter_map(|(lock, agent)| {
        let meta = &agent.as_ref()?.meta;
        (!meta.is_empty()).then_some((lock.client_id, meta))
    });
    let mut met = HashSet::new();
    let said = said.filter(|(client_id, _)| met.insert(*client_id));
    let (mut parts, mut part, mut room) = (Vec::new(), Vec::new(), PART);
    for (client_id, meta) in said {
        let texts = meta.iter().map(|(key, value)| key.len() + value.len());
        room = room.saturating_sub(texts.sum::<usize>() + OVERHEAD);
        part.push((client_id.to_bytes(), meta.clone()));
        if room == 0 {
            parts.push(FromDaemon::Annotated { query, agents: mem::take(&mut part) });
            room = PART;
        }
    }
    if !part.is_empty() {
        parts.push(FromDaemon::Annotated { query, agents: part });
    }
    let mut sent: HashMap<_, &str> = HashMap::new();
    let known =
        owned.iter().filter_map(|one| Some((one.lock.client_id, &*one.agent.as_ref()?.why)));
    sent.extend(known);
    // What a lock is for, if that is not what is sent with its agent.
    let whys = held.iter().chain(pending).zip(0..).filter_map(|(one, place)| {
        let why = &one.agent.as_ref()?.why;
        let sent = *sent.entry(one.lock.client_id).or_insert(why);
        (sent != why).then(|| (place, why.clone()))
    });
    let whys: Vec<_> = whys.collect();
    for whys in whys.chunks(PART / (MAX_TEXT + OVERHEAD)) {
        parts.push(FromDaemon::Whys { query, whys: whys.to_vec() });
    }
    if *left_out > 0 {
        parts.push(FromDaemon::LeftOut { query, count: *left_out });
    }
    parts
}

fn owned_entry(owned: Owned) -> OwnedEntry {
    let age = owned.age.map(milliseconds).unwrap_or_default();
    OwnedEntry { entry: entry(owned.lock), age, taken: owned.taken }
}

fn inspection_entry(inspected: Inspected) -> InspectionEntry {
    InspectionEntry {
        entry: entry(inspected.lock),
        age: inspected.age.map(milliseconds),
        token: inspected.fencing_token.map(FencingToken::get),
    }
}
