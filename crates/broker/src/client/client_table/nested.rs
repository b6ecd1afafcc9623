//! The locks inside which requests are made, and the deadlocks that requests are part of.

use navlock_core::look::{InDeadlock, LockId, Patience};
use navlock_engine::RequestId;
use navlock_wire::{MAX_INSIDE, ToDaemon};

use super::{ClientTable, link::Link};

impl ClientTable {
    /// Notes that the program has taken the answer to a request, or will not take it.
    pub(in super::super) fn note_taken(&mut self, id: RequestId) {
        let request = self.requests.get_mut(id.index()).filter(|it| it.serial == id.serial());
        if let Some(agent) = request.and_then(|request| request.untaken.take()) {
            self.owned.note_taken(agent);
        }
    }

    /// Whether there is a daemon. If there is none, what is said of requests is said with their claims.
    pub(super) fn tells_more(&self) -> bool {
        self.link == Link::Up
    }

    /// Notes that the program has said all that it says of this request when it makes it.
    pub(in super::super) fn note_made(&mut self, request: RequestId) {
        if self.state(request).is_some() {
            self.requests[request.index()].is_made = true;
        }
    }

    /// Whether the request is [made](Self::note_made).
    pub(in super::super) fn is_made(&mut self, request: RequestId) -> bool {
        self.state(request).is_some() && self.requests[request.index()].is_made
    }

    /// Notes that this request is made inside that lock as well. Does so only if the request waits.
    pub(in super::super) fn put_inside(&mut self, request: RequestId, lock: LockId) {
        if self.state(request).is_some_and(|state| state.is_pending()) {
            let inside = &mut self.requests[request.index()].more.get_or_insert_default().inside;
            if inside.len() >= MAX_INSIDE || inside.contains(&lock) {
                return;
            }
            inside.push(lock);
            if self.tells_more() {
                self.say(&ToDaemon::Inside { request, lock });
            }
        }
    }

    /// Notes how long this request waits. Does so only if the request waits.
    pub(in super::super) fn note_patience(&mut self, request: RequestId, patience: Patience) {
        if self.state(request).is_some_and(|state| state.is_pending()) {
            let known = &mut self.requests[request.index()].patience;
            *known = patience.max(*known);
            if self.tells_more() {
                self.say(&ToDaemon::Patience { request, patience });
            }
        }
    }

    /// The deadlock that this request is part of, if it waits, and the daemon has said so.
    pub(in super::super) fn deadlock(&mut self, id: RequestId) -> Option<InDeadlock> {
        let is_pending = self.state(id)?.is_pending();
        let more = self.requests[id.index()].more.as_ref().filter(|_| is_pending)?;
        more.deadlock.clone()
    }
}
