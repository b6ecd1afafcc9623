//! Look tables: what a shard keeps, while somebody looks at it, to tell the lookers.
//!
//! The engine does not know the time, nor what a request that is gone had asked for. So a shard at
//! which somebody looks has a table of its entries beside the engine. The table is made with the
//! first picture, and dropped with the last looker. Without a table, a request only has to check
//! that there is none.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
use navlock_engine::{
    AgentId, Event, FencingToken, LockManager, Mode, Patience, RequestId, Status,
};

use super::board::Board;
use crate::{
    AgentInfo, ClientId, Lost, ResourceName,
    backend::Ticket,
    look::{Agent, Change, Entry, LockId, LockName},
    sync::shrink,
};

/// The entries of a shard that is looked at, and the board to which events go.
#[derive(Debug)]
pub(super) struct LookTable {
    pub(super) by: LookedBy,
    /// The lane of the shard, and how many there are.
    pub(super) lane: (u32, usize),
    pub(super) entries: HashMap<RequestId, (LockName, Entry), RandomState>,
}

/// The number of lookers, and the board to which events go.
#[derive(Debug)]
pub(super) struct LookedBy {
    board: Arc<Board>,
    bucket: Arc<str>,
    pub(super) lookers: usize,
}

/// What lookers are shown of the agents of a bucket.
#[derive(Debug, Default)]
pub(super) struct ShownAgents {
    /// What agents say of themselves, if they say anything.
    pub(super) infos: HashMap<AgentId, Arc<AgentInfo>, RandomState>,
    pub(super) looked: Option<LookedBy>,
}

impl LookedBy {
    pub(super) fn new(board: &Arc<Board>, bucket: &Arc<str>) -> Self {
        Self { board: Arc::clone(board), bucket: Arc::clone(bucket), lookers: 0 }
    }

    pub(super) fn agent_came(&self, client_id: ClientId, info: Arc<AgentInfo>) {
        let details = Agent::new(Arc::clone(&self.bucket), info, None);
        self.board.tell(&self.bucket, |_| Change::AgentCame { agent: client_id, details });
    }

    pub(super) fn agent_went(&self, client_id: ClientId) {
        self.board.tell(&self.bucket, |_| Change::AgentWent { agent: client_id });
    }
}

/// FAST: all these functions are cold, so that they are out of the way of those who take locks
/// while nobody looks.
impl LookTable {
    fn lock_id(&self, client_id: ClientId, id: RequestId) -> LockId {
        let (lane, lanes) = self.lane;
        LockId { client_id, serial: serial(Ticket { lane, id }, lanes) }
    }

    /// Notes a request that waits or, if it has a token, was a lock at once.
    #[cold]
    #[inline(never)]
    pub(super) fn requested(
        &mut self,
        client_id: ClientId,
        name: &ResourceName,
        mode: Mode,
        id: RequestId,
        token: Option<FencingToken>,
        why: Option<Arc<str>>,
    ) {
        let lock_id = self.lock_id(client_id, id);
        let Self { by: LookedBy { board, bucket, .. }, entries, .. } = self;
        let name = LockName::new(Arc::clone(bucket), name.clone());
        board.tell(bucket, |now| {
            let mut entry = Entry::new(lock_id, mode);
            (entry.since, entry.token, entry.why) = (now, token, why);
            entries.insert(id, (name.clone(), entry.clone()));
            match token {
                Some(_) => Change::Granted { name, entry },
                None => Change::Requested { name, entry },
            }
        });
    }

    /// A lock could not be had at once.
    #[cold]
    #[inline(never)]
    pub(super) fn unavailable(&self, client_id: ClientId, name: &ResourceName) {
        let LookedBy { board, bucket, .. } = &self.by;
        let name = LockName::new(Arc::clone(bucket), name.clone());
        board.tell(bucket, |_| Change::Unavailable { name, agent: client_id });
    }

    /// Notes that a request or a lock has ended: by its agent, unless it was `lost`. Does nothing if it was gone
    /// before.
    #[cold]
    #[inline(never)]
    pub(super) fn ended(&mut self, id: RequestId, lost: Option<(Lost, Option<ClientId>)>) {
        let Some((name, Entry { id, token, .. })) = self.entries.remove(&id) else { return };
        shrink(&mut self.entries);
        let LookedBy { board, bucket, .. } = &self.by;
        board.tell(bucket, |_| match (token, lost) {
            (None, _) => Change::Aborted { name, id },
            (Some(_), None) => Change::Released { name, id },
            (Some(_), Some((how, by))) => Change::Lost { name, id, how, by },
        });
    }

    /// Tells lookers of an event of the engine. If the event is a theft, the thief is `thief`.
    #[cold]
    #[inline(never)]
    pub(super) fn happened<T>(
        &mut self,
        event: Event,
        locks: &LockManager<T>,
        thief: Option<ClientId>,
    ) {
        match event {
            Event::Granted(id) => {
                let Status::Held(token) = locks.status(id) else { return };
                let Self { by: LookedBy { board, bucket, .. }, entries, .. } = self;
                let Some((name, entry)) = entries.get_mut(&id) else { return };
                board.tell(bucket, |now| {
                    (entry.since, entry.is_older, entry.token) = (now, false, Some(token));
                    entry.patience = Patience::Endless;
                    Change::Granted { name: name.clone(), entry: entry.clone() }
                });
            }
            Event::Stolen(id) => self.ended(id, Some((Lost::Stolen, thief))),
            Event::Terminated(id) => self.ended(id, Some((Lost::Terminated, None))),
            // Other outcomes are return values of a request, and are told there.
            _ => {}
        }
    }

    /// Notes that the request was made inside this lock as well.
    pub(super) fn put_inside(&mut self, id: RequestId, inside: LockId) {
        self.change(id, |entry| {
            let is_new = !entry.inside.contains(&inside);
            entry.inside.extend(is_new.then_some(inside));
            is_new
        });
    }

    /// Notes how long the request waits.
    pub(super) fn note_patience(&mut self, id: RequestId, patience: Patience) {
        self.change(id, |entry| {
            let known = entry.patience;
            entry.patience = known.max(patience);
            known < patience
        });
    }

    /// Tells a waiting request again, if `change` has changed it.
    fn change(&mut self, id: RequestId, change: impl FnOnce(&mut Entry) -> bool) {
        let Self { by: LookedBy { board, bucket, .. }, entries, .. } = self;
        let Some((name, entry)) = entries.get_mut(&id) else { return };
        if entry.token.is_none() && change(entry) {
            let (name, entry) = (name.clone(), entry.clone());
            board.tell(bucket, |_| Change::Requested { name, entry });
        }
    }
}

/// The number of a request among all requests of its agent in this bucket.
pub(super) fn serial(ticket: Ticket, lanes: usize) -> u64 {
    // Each shard has serial numbers of its own. Two requests have the same number here only once
    // the product wraps, which takes centuries.
    let lanes = u64::try_from(lanes).unwrap_or(u64::MAX);
    ticket.id.serial().wrapping_mul(lanes).wrapping_add(ticket.lane.into())
}
