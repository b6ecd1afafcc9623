//! Takes in the messages of the daemon.

use std::{mem, task::Waker};

use navlock_core::look::InDeadlock;
use navlock_engine::RequestId;
use navlock_wire::FromDaemon;

use super::{ClientTable, SlotPlace, State};
use crate::{clock, convert::failed};

impl ClientTable {
    /// Takes in a message. A message about a request that is not here any more was on its way when
    /// the request ended, and is ignored.
    pub(in super::super) fn handle_message(
        &mut self,
        message: FromDaemon,
        wakers: &mut Vec<Waker>,
    ) {
        self.has_heard = true;
        match message {
            FromDaemon::Granted { request, token, in_slot } => {
                self.answer(request, State::Held(token, Vec::new()), in_slot, wakers);
                if self.terms.are_known {
                    self.look_again(request);
                }
            }
            FromDaemon::Mapped { nonce, epoch } => self.mapped(nonce, epoch),
            FromDaemon::Term { agent, ends, bounds } => self.set_term(agent, ends, bounds),
            FromDaemon::Unavailable { request } => {
                self.answer(request, State::Unavailable, false, wakers);
            }
            FromDaemon::Failed { request, failure } => {
                self.answer(request, State::Failed(failed(failure)), false, wakers);
            }
            FromDaemon::Lost { request, how: (lost, stolen_by) } => {
                if self.state(request).is_none() {
                    // Otherwise the message concerns a lock that was taken in the map after the
                    // request was finished.
                    self.owned.slots().lose_one(request, (lost, stolen_by), wakers);
                    return;
                }
                self.end(request.index(), &lost.into(), lost, wakers);
                if let Some(State::Lost(_, by)) = self.state(request) {
                    *by = stolen_by;
                }
            }
            FromDaemon::Deadlock { request, told, gives_way } => {
                if let Some(State::Pending(waker)) = self.state(request) {
                    // The task will poll again, and then give a new waker.
                    wakers.push(mem::replace(waker, Waker::noop().clone()));
                    let more = self.requests[request.index()].more.get_or_insert_default();
                    more.deadlock = Some(InDeadlock::new(told, gives_way));
                }
            }
            FromDaemon::Snapshot { .. }
            | FromDaemon::Inspection { .. }
            | FromDaemon::Position { .. }
            | FromDaemon::Status { .. }
            | FromDaemon::QueryFailed { .. } => self.questions.handle_message(message, wakers),
            // These messages come before a session, or change nothing.
            _ => {}
        }
    }

    /// Takes in the answer to a request. `in_slot` says whether it was granted in its slot.
    fn answer(&mut self, id: RequestId, answer: State, in_slot: bool, wakers: &mut Vec<Waker>) {
        let is_held = matches!(answer, State::Held(..));
        self.mapping.has_granted |= is_held;
        // Only a waiting request is answered: an agent that was terminated here holds nothing any
        // more.
        if self.state(id).is_some_and(|state| state.is_pending()) {
            let request = &mut self.requests[id.index()];
            request.since = clock::now();
            if let State::Pending(waker) = mem::replace(&mut request.state, answer) {
                wakers.push(waker);
            }
            request.untaken = request.agent;
            if let Some(agent) = request.agent {
                self.owned.note_answered(agent, id.serial());
            }
            // The slot's place is noted before the name can be taken in it.
            self.settle_place(id.index(), in_slot, is_held);
            self.waits_no_more(id.index());
        }
        self.owned.slots().answered(id.serial());
    }

    /// Notes that a request was answered: now its slot has its lock, or is free.
    fn settle_place(&mut self, index: usize, in_slot: bool, is_held: bool) {
        let (place, more) = match mem::take(&mut self.requests[index].place) {
            SlotPlace::Slot(slot) => {
                let hold = if in_slot && is_held { self.owned.slots().granted(slot) } else { None };
                if hold.is_none() {
                    self.owned.slots().free(slot);
                }
                let is_outside = is_held && hold.is_none();
                (hold.map_or(SlotPlace::Outside, SlotPlace::Hold), i32::from(is_outside))
            }
            place => (place, -i32::from(!is_held)),
        };
        self.requests[index].place = place;
        if more != 0 {
            self.count_unmapped(more);
        }
    }
}
