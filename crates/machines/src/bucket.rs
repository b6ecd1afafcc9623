//! Decides which operations have to be done in one bucket, name by name.
//!
//! For each name, one operation is on its way at a time, so that requests are made in the order of
//! the calls. Different names do not wait for each other. Ends go before beginnings: a release
//! waits only for earlier requests of its own agent, and not for those of all agents of this
//! machine. Sans-IO: this module says what to do, and the [keeper](crate::keeper) does it.

mod bucket_host;
mod name;
mod owned_names;
mod standing;

use std::collections::HashMap;

use navlock_core::{Mode, host::RequestKind};
use navlock_engine::RequestId;

pub(crate) use self::{
    bucket_host::{BucketHost, Wait},
    name::Todo,
};
use self::{
    name::Name,
    standing::{Standing, granted, standing},
};
use crate::{
    ended::Ended,
    hash::HashState,
    keys::{BucketKeys, NameKey, Phase, RequestKey},
    mirror::{Entry, Mirror},
    table::AgentSerial,
    transactions::{Ask, Force, MOST, MOST_ASKS, MOST_BYTES, Operation},
    view::View,
};

/// One bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) keys: BucketKeys,
    /// The names that this connection uses, or has used a moment ago.
    pub(crate) views: HashMap<NameKey, View, HashState>,
    names: HashMap<NameKey, Name, HashState>,
    /// The number of the last operation that was asked for.
    last: u64,
}

impl Bucket {
    pub(crate) fn new(keys: BucketKeys) -> Self {
        Self { keys, views: HashMap::default(), names: HashMap::default(), last: 0 }
    }

    /// The mirror of a name, if anything is known of the name.
    pub(crate) fn mirror(&self, name: &NameKey) -> Option<&Mirror> {
        self.views.get(name).map(|view| &view.mirror)
    }

    /// All locks and requests that are known, with their names.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&NameKey, Phase, &Entry)> {
        self.views.iter().flat_map(|(name, view)| {
            view.mirror.entries().map(move |(phase, entry)| (name, phase, entry))
        })
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The number of the last operation that was asked for.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn push(&mut self, name: NameKey, todo: Todo) {
        let number = self.number();
        let name = self.names.entry(name).or_default();
        match todo {
            Todo::Remove(ended, agent) if !agent.is_some_and(|agent| name.is_asking(agent)) => {
                name.ending.push_back((number, ended));
            }
            todo => {
                name.count(&todo);
                name.todo.push_back((number, todo));
            }
        }
    }

    /// Notes requests that have to be made again, before all later ones.
    pub(crate) fn push_again(&mut self, name: &NameKey, requests: Vec<(RequestId, AgentSerial)>) {
        let name = self.names.entry(name.clone()).or_default();
        // They get the number of the operation that is on its way, so that a query that waits for
        // that operation waits for them as well.
        let number = name.under_way.unwrap_or_default();
        for (request, agent) in requests {
            // They are put into the order in which they were made, whichever agents have made them.
            let is_later = |(_, todo): &(u64, Todo)| match todo {
                Todo::Request(other, _) => other.serial() > request.serial(),
                Todo::Remove(..) => false,
            };
            let at = name.todo.iter().position(is_later).unwrap_or(name.todo.len());
            let todo = Todo::Request(request, agent);
            name.count(&todo);
            name.todo.insert(at, (number, todo));
        }
    }

    /// To be called when the store has begun anew: the operations that were on their way have no effect,
    /// and the keys are gone. Requests that were not sent yet have still to be made.
    pub(crate) fn begin_anew(&mut self) {
        self.names.retain(|_, name| {
            name.begin_anew();
            !name.todo.is_empty()
        });
    }

    /// Whether all operations up to this number are done.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        // The operation that is on its way may be newer than others, because a grant goes before
        // requests.
        self.names.values().filter_map(Name::oldest).all(|oldest| oldest > number)
    }

    /// The names for which there is something to do.
    pub(crate) fn names(&self) -> Vec<NameKey> {
        self.names.keys().cloned().collect()
    }

    /// Whether this name has no operation on its way and nothing else to do.
    pub(crate) fn is_idle(&self, name: &NameKey) -> bool {
        self.names.get(name).is_none_or(Name::is_idle)
    }

    /// Allows grants that have failed to be tried again.
    pub(crate) fn forget_tries(&mut self) {
        self.names.retain(|_, name| {
            name.grants.forget();
            !name.is_idle()
        });
    }

    /// The next operation for this name, if there is one. It counts as on its way from now on.
    pub(crate) fn step(
        &mut self,
        key: &NameKey,
        around: &mut impl BucketHost,
    ) -> Option<Operation> {
        let mut name = self.names.remove(key).unwrap_or_default();
        let mut operation = None;
        if name.under_way.is_none() {
            operation = self.leave(key, &mut name, around);
            if operation.is_none() {
                operation = self.grant(key, &mut name, around);
                name.under_way = operation.as_ref().map(|_| self.number());
            }
            if operation.is_none() {
                operation = self.end(key, &mut name, around);
                operation = operation.or_else(|| self.take(key, &mut name, around));
            }
        } else if name.is_theft {
            // Another connection owns the name, so nobody has to wait for the thief to be told that.
            for (_, todo) in &name.todo {
                if let Todo::Request(request, _) = *todo {
                    around.refuse(request);
                }
            }
        }
        let known = self.mirror(key).map(Mirror::version);
        let is_tried = known.is_some_and(|known| name.grants.were_made_at(known));
        if !name.is_idle() || is_tried {
            self.names.insert(key.clone(), name);
        }
        operation
    }

    /// Grants the requests that can be granted, if one of ours is among them. Or else removes
    /// requests of ours that nobody wants any more.
    ///
    /// Shared requests are granted from the first one on, even if they belong to other machines. If
    /// each machine granted only its own requests, a later one could be granted before an earlier
    /// one.
    fn grant(
        &self,
        key: &NameKey,
        name: &mut Name,
        around: &mut impl BucketHost,
    ) -> Option<Operation> {
        let mirror = self.mirror(key)?;
        if name.grants.were_made_at(mirror.version()) {
            return None;
        }
        let granted = granted(mirror.grantable(), name.grants.most(), around);
        let stands = |entry: &&Entry, standing| self::standing(entry, around) == standing;
        let mut front = mirror.grantable();
        if !granted.is_empty() && front.any(|entry| stands(&entry, Standing::Wanted)) {
            name.grants.note_made_at(mirror.version());
            return Some(Operation::Grant(granted));
        }
        let front = mirror.grantable();
        let unwanted = front.filter(|entry| stands(entry, Standing::Unwanted)).take(MOST);
        let mut unwanted: Vec<_> = unwanted.map(Entry::ended).collect();
        if unwanted.is_empty() {
            return None;
        }
        name.grants.note_made_at(mirror.version());
        // If somebody has asked for the end of a request already, that end will remove the request.
        let is_asked_for = |request| {
            let asks = |todo: &Todo| matches!(todo, Todo::Remove(of, _) if of.request == request);
            name.ending.iter().any(|(_, of)| of.request == request)
                || name.todo.iter().any(|(_, todo)| asks(todo))
        };
        unwanted.retain(|ended| !is_asked_for(ended.request));
        (!unwanted.is_empty()).then_some(Operation::Remove(unwanted))
    }

    /// Ends the locks and requests whose end is next. A lock that has successors is handed over in
    /// an operation of its own.
    fn end(
        &mut self,
        key: &NameKey,
        name: &mut Name,
        around: &mut impl BucketHost,
    ) -> Option<Operation> {
        let is_lock = |(_, ended): &(u64, Ended)| ended.only == Some(Phase::Held);
        if let Some(nth) = name.ending.iter().take(MOST).position(is_lock) {
            let (number, ended) = name.ending[nth];
            if let Some(owning) = self.own(key, ended, around) {
                name.ending.remove(nth);
                name.under_way = Some(number);
                return Some(Operation::Own(ended, owning));
            }
            let successors =
                self.mirror(key).into_iter().flat_map(|of| of.successors(ended.request));
            let successors = granted(successors, MOST, around);
            if !successors.is_empty() {
                name.ending.remove(nth);
                name.under_way = Some(number);
                return Some(Operation::HandOver(ended, successors));
            }
        }
        name.under_way = Some(name.ending.front()?.0);
        let count = name.ending.len().min(MOST);
        Some(Operation::Remove(name.ending.drain(..count).map(|(_, ended)| ended).collect()))
    }

    /// Makes the next requests, as many as fit into one transaction.
    fn take(
        &mut self,
        key: &NameKey,
        name: &mut Name,
        around: &mut impl BucketHost,
    ) -> Option<Operation> {
        let mut asks: Vec<Ask> = Vec::new();
        let (mut bytes, mut first) = (0, None);
        while asks.len() < MOST_ASKS {
            let Some(&(number, ref todo)) = name.todo.front() else { break };
            let (request, agent) = match *todo {
                Todo::Request(request, agent) => (request, agent),
                // All earlier requests of the agent have been made.
                Todo::Remove(ended, _) if asks.is_empty() => {
                    name.pop();
                    name.ending.push_back((number, ended));
                    return self.end(key, name, around);
                }
                Todo::Remove(..) => break,
            };
            let (ask, kind) = match around.ask(agent, request) {
                None => {
                    name.pop();
                    continue;
                }
                Some(Err(Wait)) => break,
                Some(Ok(ask)) => ask,
            };
            bytes += ask.value.len();
            // A transaction fails as a whole if a lease has ended, so it has one lease.
            let fits = asks.first().is_none_or(|first| first.lease == ask.lease)
                && (asks.is_empty() || bytes <= MOST_BYTES);
            // Of exclusive requests that do not wait, the first one is granted, or none.
            let alike = kind.waits() || kind == RequestKind::IfAvailable(Mode::Exclusive);
            let joins =
                first.is_none_or(|first: RequestKind| alike && first.waits() == kind.waits());
            if !joins || !fits {
                around.keep_back(request);
                break;
            }
            name.pop();
            name.under_way.get_or_insert(number);
            match kind {
                RequestKind::Wait(_) | RequestKind::IfAvailable(Mode::Exclusive) => asks.push(ask),
                RequestKind::IfAvailable(_) => return Some(Operation::IfAvailable(vec![ask])),
                RequestKind::Steal => return Some(Operation::Steal(ask, Force::Waits)),
            }
            first.get_or_insert(kind);
        }
        Some(if first?.waits() { Operation::Request(asks) } else { Operation::IfAvailable(asks) })
    }

    /// To be called when the operation that was on its way for this name is done.
    pub(crate) fn ended(&mut self, key: &NameKey) {
        if let Some(name) = self.names.get_mut(key) {
            (name.under_way, name.is_theft) = (None, false);
        }
    }

    /// To be called when the operation that is on its way is a theft, and has found that another connection
    /// owns the name.
    pub(crate) fn note_theft(&mut self, key: &NameKey) {
        if let Some(name) = self.names.get_mut(key) {
            name.is_theft = true;
        }
    }

    /// To be called when a grant has found that one of the leases has ended. From now on, requests
    /// are granted one by one.
    pub(crate) fn grant_apart(&mut self, key: &NameKey) {
        if let Some(name) = self.names.get_mut(key) {
            name.grants.try_apart();
        }
    }

    /// The keys of a request that the mirror knows: its key as a lock, and its key as a waiting
    /// request.
    pub(crate) fn has(
        &self,
        name: &NameKey,
        request: RequestKey,
    ) -> (Option<&Entry>, Option<&Entry>) {
        let its = |phase| self.mirror(name)?.get(phase, request);
        (its(Phase::Held), its(Phase::Queued))
    }
}

#[cfg(test)]
mod tests;
