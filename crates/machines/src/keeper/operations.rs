//! Operations on a name: how they are sent and tried again, and who is told of their outcomes.

use std::time::Duration;

use navlock_core::Lost;

use super::{Call, Keeper, Operated, wake};
use crate::{
    call_failure::Failure,
    data::Answer,
    keys::{NameKey, Phase, RequestKey},
    load::Turn,
    slots::Owner,
    table::{State, Status},
    tokens::{Grant, token},
    transactions::{Ask, Leaving, Operation, Outcome, Outcomes},
    view::Ownership,
    watched::Event,
};

/// The pause before an operation whose outcome is unknown is tried again.
pub(super) fn pause(tries: u32) -> Duration {
    match tries {
        0 => Duration::ZERO,
        tries => Duration::from_millis(20 << tries.min(5)),
    }
}

impl Keeper {
    pub(super) fn start(&mut self, bucket: u64, name: NameKey, operation: Operation, tries: u32) {
        let (known, asked) = (self.history.known(), None);
        self.send(Operated { bucket, name, operation, tries, known, asked });
    }

    pub(super) fn send(&mut self, of: Operated) {
        let Some(opened) = self.buckets.get(&of.bucket) else { return };
        let keys = opened.bucket.keys.name(&of.name);
        let transaction = of.operation.transaction(&keys, of.tries > 0);
        let is_left = matches!(of.operation, Operation::Leave(_));
        let view = opened.bucket.views.get(&of.name).filter(|_| is_left);
        // What is held there is lost if this comes too late.
        let is_urgent = view.is_some_and(|view| view.is_asked_for(self.slots.me()));
        let turn = if is_urgent { Turn::Passes } else { Turn::Waits };
        self.calls.push_back(Call::Operate { of, transaction, turn });
    }

    /// Tries an operation with an unknown outcome again, as far as the operation is still wanted.
    pub(super) fn try_again(&mut self, of: Operated) {
        if !self.goes_on(of.known, None) {
            return;
        }
        let (bucket, name, known) = (of.bucket, of.name.clone(), self.history.known());
        match self.wanted(bucket, &name, of.operation) {
            Some(operation) => self.send(Operated { operation, known, ..of }),
            None => self.ended(bucket, &name),
        }
    }

    /// The part of an operation that is still wanted. A request that has ended meanwhile, by itself or
    /// with its agent, must not be granted, and must not steal from others. Keys that may have been
    /// made for it are removed next.
    pub(super) fn wanted(
        &self,
        bucket: u64,
        name: &NameKey,
        operation: Operation,
    ) -> Option<Operation> {
        let mut table = self.shared.table();
        let mut is_wanted = |ask: &Ask| {
            let id = self.slots.holder(ask.request);
            id.is_some_and(|id| matches!(table.status(id), Status::Pending(_)))
        };
        match operation {
            Operation::Request(mut asks) => {
                asks.retain(is_wanted);
                (!asks.is_empty()).then_some(Operation::Request(asks))
            }
            Operation::IfAvailable(mut asks) => {
                asks.retain(is_wanted);
                (!asks.is_empty()).then_some(Operation::IfAvailable(asks))
            }
            Operation::Steal(ref ask, _) => is_wanted(ask).then_some(operation),
            // No name may be owned under a lease that is lost.
            Operation::Own(from, owning) if !self.is_good(owning.lease) => {
                Some(Operation::Remove(vec![from]))
            }
            // The locks and requests to write may be lost by now, together with their lease.
            Operation::Leave(ref leaving) => {
                self.is_leaving(bucket, name, leaving).then_some(operation)
            }
            operation => Some(operation),
        }
    }

    pub(super) fn operated(&mut self, of: Operated, result: Result<Answer, Failure>) {
        if !self.goes_on(of.known, result.as_ref().ok().map(Answer::stamp)) {
            return;
        }
        let (bucket, name) = (of.bucket, of.name.clone());
        match result {
            Ok(answer) => {
                let Some(opened) = self.buckets.get(&bucket) else { return };
                let (keys, again) = (&opened.bucket.keys, of.tries > 0);
                let changes = of.operation.changes((keys, &name), self.slots.me(), again, &answer);
                let outcomes = of.operation.read(again, &answer, &changes);
                if self.asks_owner(&of, &outcomes) {
                    return;
                }
                self.succeeded(&of, &answer, changes, &outcomes);
            }
            Err(Failure::Unknown(_)) => {
                for key in of.operation.own() {
                    self.slots.doubt(key);
                }
                let tries = of.tries + 1;
                let (of, delay) = (Operated { tries, ..of }, pause(tries));
                self.calls.push_back(Call::Pause { of, delay });
                return;
            }
            Err(failure) => {
                if let Some(operation) = self.failed(of, failure) {
                    return self.start(bucket, name, operation, 0);
                }
            }
        }
        self.ended(bucket, &name);
    }

    /// To be called when the operation that was on its way for this name is done.
    pub(super) fn ended(&mut self, bucket: u64, name: &NameKey) {
        if let Some(opened) = self.buckets.get_mut(&bucket) {
            opened.bucket.ended(name);
        }
        self.step(bucket, name);
        self.advance_queries();
        self.forget(bucket);
    }

    fn succeeded(
        &mut self,
        of: &Operated,
        answer: &Answer,
        changes: Vec<Event>,
        outcomes: &Outcomes,
    ) {
        // The watch tells of the changes as well, but it may be late.
        let is_there = |&(_, outcome)| matches!(outcome, Outcome::Held(_) | Outcome::Queued(_));
        let known = outcomes.is_all.then(|| (changes.clone(), answer.revision));
        if outcomes.requests.iter().any(is_there) {
            self.open_view(of.bucket, &of.name, known);
        }
        let is_theft = matches!(of.operation, Operation::Steal(..));
        let robbed = changes.iter().filter(|event| is_theft && event.put.is_none());
        let (own, robbed): (Vec<_>, Vec<_>) =
            robbed.map(|event| event.key.clone()).partition(|key| key.phase == Phase::Owned);
        if let Some(view) = self.view_mut(of.bucket, &of.name) {
            view.mirror.take_own(changes);
        }
        // The holders whom the thief has robbed are told first, so that they know of the theft when
        // the thief hears of its lock.
        if !own.is_empty() && matches!(self.own_state(of.bucket, &of.name), Ownership::Since(_)) {
            self.lose_name(of.bucket, &of.name, Lost::Stolen);
        }
        let Some(opened) = self.buckets.get(&of.bucket) else { return };
        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        for victim in robbed {
            if let Owner::Request(id) = self.slots.owner(victim.request, answer.revision) {
                wakers.extend(table.lose(id, Lost::Stolen));
            }
        }
        for &(request, outcome) in &outcomes.requests {
            let Some(id) = self.slots.holder(request) else { continue };
            let state = match outcome {
                Outcome::Held(made) => {
                    // An owner of the name has granted the lock before it was written.
                    table.settle(id, made);
                    State::Held(Grant::at(made), Vec::new())
                }
                Outcome::Queued(made) => {
                    table.queued(id, made);
                    continue;
                }
                Outcome::Unavailable => {
                    // A request that is absent is about to be ended, which frees its slot.
                    if table.status(id) != Status::Absent {
                        self.slots.free(request, id, answer.revision);
                    }
                    State::Unavailable
                }
                // The callers are told of this below.
                Outcome::Gone if matches!(of.operation, Operation::Leave(_)) => continue,
                Outcome::Gone => {
                    let since = match table.status(id) {
                        Status::Pending(since) => token(since),
                        _ => token(0),
                    };
                    let how = opened.bucket.mirror(&of.name).map(|mirror| mirror.why_gone(since));
                    State::Lost(how.unwrap_or(Lost::Removed))
                }
            };
            wakers.extend(table.answer(id, state));
        }
        drop(table);
        for ended in of.operation.ends() {
            if let Some(id) = ended.id {
                self.slots.free(ended.request, id, answer.revision);
            }
            self.remove_late(of.bucket, &of.name, ended.request, answer.revision);
        }
        wake(wakers);
        match &of.operation {
            Operation::Own(_, owning) => {
                let may_be_done = of.tries > 0 && !outcomes.was_held;
                self.owned(of.bucket, &of.name, outcomes.owned, owning, may_be_done);
            }
            Operation::Leave(leaving) => {
                let is_done = answer.succeeded;
                self.given_up(of.bucket, &of.name, leaving, is_done, &outcomes.requests);
            }
            _ => {}
        }
    }

    /// Takes in a failure. Returns the operation to do instead, if there is one.
    pub(super) fn failed(&mut self, of: Operated, failure: Failure) -> Option<Operation> {
        let no_lease = failure == Failure::NoLease;
        // Requests that never had a place in the queue are made again under the next lease.
        if no_lease && of.tries == 0 {
            self.take_back(&of);
        }
        let leases = match of.operation {
            // The lease of a successor has ended, so only the release remains to be done.
            Operation::HandOver(from, _) => return Some(Operation::Remove(vec![from])),
            Operation::Leave(leaving) if no_lease && !leaving.successors.is_empty() => {
                return Some(Operation::Leave(Leaving { successors: Vec::new(), ..leaving }));
            }
            Operation::Own(from, owning) => {
                self.owned(of.bucket, &of.name, None, &owning, of.tries > 0);
                if no_lease {
                    self.lease_is_gone(owning.lease);
                }
                return Some(Operation::Remove(vec![from]));
            }
            Operation::Leave(leaving) if no_lease => {
                leaving.entries.iter().map(|entry| (entry.ask.request, entry.ask.lease)).collect()
            }
            Operation::Leave(leaving) => {
                let waiting = self.not_left(of.bucket, &of.name, &leaving);
                waiting.iter().map(|entry| (entry.ask.request, entry.ask.lease)).collect()
            }
            // The lock or request ends with its lease.
            Operation::Remove(_) => return None,
            Operation::Grant(entries) if entries.len() > 1 && no_lease => {
                if let Some(opened) = self.buckets.get_mut(&of.bucket) {
                    opened.bucket.grant_apart(&of.name);
                }
                return None;
            }
            Operation::Grant(entries) => {
                entries.iter().map(|entry| (entry.request, entry.lease)).collect()
            }
            Operation::Request(_) | Operation::IfAvailable(_) | Operation::Steal(..) => {
                of.operation.asks().iter().map(|ask| (ask.request, ask.lease)).collect()
            }
        };
        self.refused(leases, failure);
        None
    }

    pub(super) fn take_back(&mut self, of: &Operated) {
        if !matches!(
            of.operation,
            Operation::Request(_) | Operation::IfAvailable(_) | Operation::Steal(..)
        ) {
            return;
        }
        let mut again = Vec::new();
        let mut table = self.shared.table();
        for key in of.operation.own() {
            let Some(id) = self.slots.holder(key) else { continue };
            again.extend(table.take_back(id).map(|agent| (id, agent)));
            // Nothing was done. A request that is absent is about to be ended, which frees its
            // slot.
            if table.status(id) != Status::Absent {
                self.slots.free(key, id, 0);
            }
        }
        drop(table);
        if let Some(opened) = self.buckets.get_mut(&of.bucket) {
            opened.bucket.push_again(&of.name, again);
        }
    }

    pub(super) fn refused(&mut self, requests: Vec<(RequestKey, i64)>, failure: Failure) {
        if failure == Failure::NoLease {
            for (_, lease) in requests {
                self.lease_is_gone(lease);
            }
            return;
        }
        let error = failure.error(self.store);
        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        for (key, _) in requests {
            if let Some(id) = self.slots.holder(key) {
                wakers.extend(table.answer(id, State::Failed(error.clone())));
            }
        }
        drop(table);
        wake(wakers);
    }
}
