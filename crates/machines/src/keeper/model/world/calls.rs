//! Calls on their way, and what the store in memory makes of them.

use super::*;
use crate::{
    clock::Uptime,
    keeper::{Call, Done, News},
    key_store::LeaseEvent,
    lease::{LeaseName, Renewal},
    leases::LeaseCall,
    watched::{Event, Watched},
};

impl World {
    /// Takes the calls that machines have to make.
    pub(super) fn collect(&mut self) {
        for nth in 0..self.machines.len() {
            while let Some(call) = self.machines[nth].keeper.poll_call() {
                match call {
                    Call::Watch { watch, prefix, from, .. } => {
                        let log = &self.store.log;
                        let is_told =
                            |from: i64| log.iter().position(|events| events[0].revision >= from);
                        let received = from.and_then(is_told).unwrap_or(log.len());
                        let watching = Watching { prefix, received };
                        self.machines[nth].watches.insert(watch, watching);
                        if from.is_none() {
                            self.begin_watch(nth, watch);
                        }
                    }
                    Call::Unwatch { watch } => {
                        self.machines[nth].watches.remove(&watch);
                    }
                    Call::Lease(LeaseCall::Keep { lease, time_to_live: Some(_), .. }) => {
                        self.machines[nth].kept.push(lease);
                    }
                    Call::Lease(LeaseCall::LetGo { lease }) => {
                        let machine = &mut self.machines[nth];
                        machine.revoked.retain(|&revoked| revoked != lease);
                        // The machine does not begin to keep the lease either.
                        machine.flights.retain(|flight| match flight {
                            Flight::Out(Call::Lease(
                                LeaseCall::Keep { lease: of, .. } | LeaseCall::Renew { lease: of },
                            )) => *of != lease,
                            _ => true,
                        });
                        if let Some(at) = machine.kept.iter().position(|&kept| kept == lease) {
                            machine.kept.remove(at);
                            // The lease lasts at least until that moment.
                            let cut = machine.cut.as_mut().map(|cut| &mut cut.leases);
                            cut.unwrap_or(&mut self.unkept).push(lease);
                        }
                    }
                    call => {
                        self.machines[nth].check_call(&call);
                        self.machines[nth].flights.push(Flight::Out(call));
                    }
                }
            }
            self.machines[nth].take_reclaimed();
        }
    }

    /// A machine receives the next events of its watch.
    pub(super) fn receive_events(&mut self, nth: usize, at: usize) {
        let machine = &mut self.machines[nth];
        let Some((&watch, watching)) = machine.watches.iter_mut().nth(at) else { return };
        let Some((at, events)) = watching.rest(&self.store).next() else { return };
        let events: Vec<Event> = events.into_iter().cloned().collect();
        watching.received = at + 1;
        machine.watched(watch, Watched::Events(events));
    }

    pub(super) fn begin_watch(&mut self, nth: usize, watch: u64) {
        let machine = &mut self.machines[nth];
        if let Some(watching) = machine.watches.get_mut(&watch) {
            watching.received = self.store.log.len();
            machine.watched(watch, Watched::Up);
        }
    }

    pub(super) fn execute(&mut self, nth: usize, at: usize) {
        let machine = &mut self.machines[nth];
        let sent = Uptime::now_at(machine.now);
        let renewal = Renewal { sent, time_to_live: TIME_TO_LIVE };
        let done = match machine.flights.remove(at) {
            Flight::Late(transaction) => {
                let _ = self.store.transact(&transaction);
                return;
            }
            Flight::Back(_) => return,
            Flight::Out(call) => match call {
                Call::Operate { of, transaction, .. } => {
                    Done::Operated(of, self.store.transact(&transaction))
                }
                Call::Pause { of, .. } => {
                    if of.asked.is_some() {
                        self.looked = self.store.revision;
                    }
                    Done::Paused(of)
                }
                Call::List { of, known, prefix, at, delay, .. } => {
                    if !delay.is_zero() {
                        machine.listed = self.store.revision;
                    }
                    Done::Listed(of, known, Ok(self.store.list(&prefix, at)))
                }
                Call::Lease(LeaseCall::Begin { .. }) => {
                    let lease = LeaseName { cluster: 1, id: self.store.grant_lease() };
                    Done::Leased(Ok((lease, renewal)))
                }
                Call::Lease(LeaseCall::Revoke { lease }) => {
                    self.unkept.retain(|&unkept| unkept != lease);
                    self.store.end_lease(lease);
                    return;
                }
                Call::LookUnder { lease, why } => {
                    Done::Under(lease, why, Ok(self.store.under(lease)))
                }
                Call::Write { transaction } => {
                    let _ = self.store.transact(&transaction);
                    return;
                }
                Call::Adopt { of, transaction } => {
                    Done::Adopted(of, self.store.transact(&transaction))
                }
                Call::Describe { of, transaction } => {
                    let _ = self.store.transact(&transaction);
                    Done::Described(of)
                }
                Call::Lease(LeaseCall::Keep { lease, .. } | LeaseCall::Renew { lease }) => {
                    let word = if self.store.leases.contains(&lease) {
                        self.unkept.retain(|&unkept| unkept != lease);
                        if let Some(cut) = &mut machine.cut {
                            cut.leases.retain(|&kept| kept != lease);
                        }
                        if !machine.kept.contains(&lease) {
                            machine.kept.push(lease);
                        }
                        let asked = self.store.asked(&machine.keeper.mailbox());
                        LeaseEvent::Renewed(renewal, asked)
                    } else {
                        LeaseEvent::Gone
                    };
                    machine.within(|keeper| keeper.handle_news(News::Lease { lease, word }));
                    return;
                }
                _ => return,
            },
        };
        match done {
            Done::Operated(..) => machine.flights.push(Flight::Back(done)),
            // FAST: all other answers come at once. That is the same as if their questions had been
            // asked later.
            done => machine.within(|keeper| keeper.handle_done(done)),
        }
    }
}
