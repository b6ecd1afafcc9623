//! Deadlocks of requests that wait inside locks of one bucket: what is noted to find deadlocks, and
//! which request fails.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use navlock_engine::{Patience, Status};

use super::{MemoryBackend, look_table::serial, nested::Noted, shard::State};
use crate::{
    backend::Ticket,
    look::{Deadlock, Entry, InDeadlock, LockId, LockName, Overview, Queue, deadlocks},
    sync::{MutexGuard, lock},
    waking::wake_all,
};

impl MemoryBackend {
    /// See [`Backend::serial`](crate::host::Backend::serial).
    pub(super) fn serial_of(&self, ticket: Ticket) -> u64 {
        serial(ticket, self.shards.len())
    }

    pub(super) fn note_inside(&self, ticket: Ticket, inside: LockId) {
        let mut nested = lock(&self.nested);
        let number = nested.made;
        nested.made += 1;
        let noted = nested.requests.entry(ticket);
        let new = || Noted { inside: Vec::new(), number, is_failing: false };
        let noted = noted.or_insert_with(new);
        // The number is new each time: if this lock closes a cycle, this request is the one that
        // closed it.
        noted.number = number;
        noted.inside.push(inside);
        if nested.lookers > 0 {
            drop(nested);
            // A looker that has begun meanwhile has seen the note in its picture. `put_inside` does
            // not tell it again.
            if let Some(table) = &mut self.shard(ticket).lock().look_table {
                table.put_inside(ticket.id, inside);
            }
            nested = lock(&self.nested);
        }
        let is_crowded = nested.requests.len() >= nested.crowd.max(64);
        if !is_crowded && !nested.some_give_way {
            return;
        }
        let tickets: Vec<_> = nested.requests.keys().copied().collect();
        let some_give_way = nested.some_give_way;
        drop(nested);
        // A cycle that there is now has this request in it.
        let gives_way = || self.patience(ticket) == Patience::GivesWay;
        if some_give_way && !gives_way() && self.deadlock_of(ticket).is_some() {
            self.wake_who_give_way(&tickets);
        }
        if !is_crowded {
            return;
        }
        let is_over =
            |ticket: &Ticket| self.shard(*ticket).lock().locks.status(ticket.id) != Status::Pending;
        let over: Vec<_> = tickets.into_iter().filter(is_over).collect();
        let mut nested = lock(&self.nested);
        for ticket in over {
            nested.requests.remove(&ticket);
        }
        nested.crowd = 2 * nested.requests.len();
    }

    /// See [`Backend::note_patience`](crate::host::Backend::note_patience).
    pub(super) fn note_how_long(&self, ticket: Ticket, patience: Patience) {
        if patience == Patience::GivesWay {
            lock(&self.nested).some_give_way = true;
        }
        let mut state = self.shard(ticket).lock();
        state.locks.note_patience(ticket.id, patience);
        if let Some(table) = &mut state.look_table {
            table.note_patience(ticket.id, patience);
        }
    }

    fn patience(&self, ticket: Ticket) -> Patience {
        self.shard(ticket).lock().locks.patience(ticket.id)
    }

    /// Wakes those of these requests that give way in a deadlock: one that does not has closed it.
    fn wake_who_give_way(&self, tickets: &[Ticket]) {
        let gives_way = |ticket: &&Ticket| self.patience(**ticket) == Patience::GivesWay;
        let waker = |ticket: &Ticket| self.shard(*ticket).lock().locks.data(ticket.id)?.clone();
        wake_all(tickets.iter().filter(gives_way).filter_map(waker).collect::<Vec<_>>());
    }

    /// See [`Backend::fail_in_deadlock`](crate::host::Backend::fail_in_deadlock).
    ///
    /// Requests are decided one after the other. Otherwise two requests of one cycle could fail:
    /// before the last request of the cycle is finished, another one could be said to be inside one
    /// more lock, and then be the last as well.
    pub(super) fn decide_deadlock(&self, ticket: Ticket) -> Option<InDeadlock> {
        // FAST: mostly there is no deadlock.
        self.deadlock_of(ticket).filter(|deadlock| deadlock.gives_way)?;
        let deciding = lock(&self.deciding);
        let deadlock = self.deadlock_of(ticket).filter(|deadlock| deadlock.gives_way)?;
        let mut nested = lock(&self.nested);
        if let Some(noted) = nested.requests.get_mut(&ticket) {
            noted.is_failing = true;
        }
        let others: Vec<_> = nested.requests.keys().copied().filter(|it| *it != ticket).collect();
        drop(nested);
        drop(deciding);
        // Who waited behind this one now waits for whoever is ahead of it, which may be another deadlock.
        self.wake_who_give_way(&others);
        Some(deadlock)
    }

    /// See [`Backend::deadlock`](crate::host::Backend::deadlock).
    pub(super) fn deadlock_of(&self, ticket: Ticket) -> Option<InDeadlock> {
        let nested = lock(&self.nested);
        // A request that waits inside nothing is part of no cycle.
        nested.requests.get(&ticket)?;
        let requests = nested.requests.clone();
        drop(nested);
        // In a cycle, each name has a waiting request that is inside a lock. So only the shards of
        // these requests matter.
        let shards: BTreeSet<u32> = requests.keys().map(|ticket| ticket.lane).collect();
        // All shards are locked at one moment, in their order.
        let states: Vec<_> =
            shards.into_iter().map(|lane| (lane, self.shards[lane as usize].lock())).collect();
        let overview = self.overview(&states, &requests);
        drop(states);
        let id = overview.queues.values().flat_map(|queue| &queue.pending);
        let serial = self.serial_of(ticket);
        let ids: Vec<_> = id.map(|entry| entry.id).filter(|id| id.serial == serial).collect();
        let mut found = deadlocks(&overview);
        found.retain(|it| it.is_certain && ids.iter().any(|id| it.has_waiting(*id)));
        // The request may be in several.
        let gives_way = |it: &&Deadlock| ids.contains(&it.gives_way());
        let told = found.iter().find(gives_way).or(found.first())?;
        Some(InDeadlock { told: told.to_string(), gives_way: gives_way(&told) })
    }

    fn overview(
        &self,
        states: &[(u32, MutexGuard<'_, State>)],
        requests: &HashMap<Ticket, Noted, RandomState>,
    ) -> Overview {
        // There is no clock here to tell the order. Requests that are noted get moments in the
        // order of their notes, after all others.
        let begin = Instant::now();
        let agents = lock(&self.agents);
        let mut overview = Overview::default();
        for (lane, state) in states {
            for info in state.locks.snapshot_lock_state() {
                let Some(client_id) = agents.client_id(info.agent) else { continue };
                let ticket = Ticket { lane: *lane, id: info.id };
                let id = LockId { client_id, serial: self.serial_of(ticket) };
                let mut entry = Entry::new(id, info.mode);
                entry.since = begin;
                entry.patience = state.locks.patience(info.id);
                if let Some(noted) = requests.get(&ticket).filter(|_| !info.is_held) {
                    if noted.is_failing {
                        continue;
                    }
                    entry.inside.clone_from(&noted.inside);
                    entry.since += Duration::from_nanos(noted.number + 1);
                }
                let queue = overview.queues.entry(LockName::new("", info.name.clone()));
                let Queue { held, pending, .. } = queue.or_default();
                if info.is_held { held } else { pending }.push(entry);
            }
        }
        overview
    }
}
