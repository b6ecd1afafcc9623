//! What happens to requests and locks while there is no connection.

use std::task::Waker;

use navlock_core::{Error, Lost};
use navlock_engine::RequestId;
use navlock_wire::Moment;

use super::{ClientTable, Request, State, id, link::Link};
use crate::clock;

impl ClientTable {
    pub(super) fn need_link(&mut self) {
        if self.link == Link::Down {
            self.link = Link::Coming;
            self.needed_since = clock::now();
        }
    }

    /// Whether there is no connection and somebody needs one.
    pub(in super::super) fn needs_link(&self) -> bool {
        self.link == Link::Coming
    }

    /// Since when there is no connection and somebody needs one.
    pub(in super::super) fn needed_since(&self) -> Option<Moment> {
        self.needs_link().then_some(self.needed_since)
    }

    /// Notes that the connection has ended. Returns whether nothing was read on it.
    pub(in super::super) fn disconnected(&mut self) -> bool {
        self.outgoing.clear();
        self.link = Link::Coming;
        self.needed_since = clock::now();
        self.mapping.end_session();
        self.tell_alone();
        !self.has_heard
    }

    /// Notes that there will never be a connection.
    pub(in super::super) fn orphan(&mut self) {
        self.link = Link::Gone;
        self.tell_alone();
    }

    /// Tells the threads that take owned names whether there is a daemon. Without a daemon, each of
    /// them must check after a take that the lock is ours. This is so even when all locks have been
    /// lost, because that may happen between the take and the check.
    pub(super) fn tell_alone(&self) {
        self.owned.set_alone(self.has_no_daemon());
    }

    fn has_no_daemon(&self) -> bool {
        self.link != Link::Up && self.link != Link::Forked && self.early.is_none()
    }

    /// Whether locks may be held while there is no daemon to say which of them are lost.
    pub(in super::super) fn is_alone(&self) -> bool {
        self.has_no_daemon() && !self.is_given_up
    }

    /// Whether anything is held.
    pub(in super::super) fn holds(&self) -> bool {
        self.requests.iter().any(|(_, request)| matches!(request.state, State::Held(..)))
            || !self.is_forked() && self.owned.slots().is_held()
    }

    /// Ends the held locks that are lost. Returns the wakers to call.
    pub(in super::super) fn lose(&mut self, is_lost: impl Fn(RequestId) -> bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let held = |(_, request): &(usize, &Request)| matches!(request.state, State::Held(..));
        let held: Vec<_> = self.requests.iter().filter(held).map(|(index, _)| index).collect();
        let mut is_left = false;
        for index in held {
            if is_lost(id(index, self.requests[index].serial)) {
                let lost = Lost::Disconnected;
                self.end(index, &Error::from(lost), lost, &mut wakers);
            } else {
                is_left = true;
            }
        }
        is_left |= self.owned.slots().lose_all(is_lost, &mut wakers);
        self.is_given_up = !is_left;
        self.tell_alone();
        wakers
    }

    /// Fails all questions and requests, because no connection can be had. If somebody else is to start the daemon,
    /// requests that wait for a lock wait on, unless there was no connection so far. Locks stay held until they are
    /// [lost](Self::lose). Returns the wakers to call.
    pub(in super::super) fn give_up(&mut self, error: &Error, waits_on: bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let waits_on = waits_on && self.early.is_none();
        let pending = |(_, request): &(usize, &Request)| {
            request.state.is_pending() && !(waits_on && request.kind.waits())
        };
        let pending: Vec<_> =
            self.requests.iter().filter(pending).map(|(index, _)| index).collect();
        for index in pending {
            self.end(index, error, Lost::Disconnected, &mut wakers);
        }
        self.questions.give_up(error, &mut wakers);
        let is_needed = self.requests.iter().any(|(_, request)| request.state.is_pending());
        self.link = if is_needed { Link::Coming } else { Link::Down };
        if let Some(early) = &mut self.early {
            // Of the messages from before the first connection, only those that open agents are
            // kept.
            early.clear();
            let agents: Vec<_> =
                self.agents.iter().flat_map(|(index, _)| self.introduction(index)).collect();
            for message in agents {
                self.say(&message);
            }
        }
        wakers
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{super::super::owned::Owned, *};

    #[test]
    fn a_client_that_has_just_taken_a_lock_looks_again_although_all_was_lost_meanwhile() {
        let owned = Arc::new(Owned::new().unwrap());
        let mut table = ClientTable::new([0; 16], Arc::clone(&owned), true);
        table.connected(None);
        assert!(!owned.is_alone());
        table.disconnected();
        assert!(owned.is_alone());
        assert!(table.lose(|_| true).is_empty());
        assert!(!table.is_alone() && owned.is_alone());
    }
}
