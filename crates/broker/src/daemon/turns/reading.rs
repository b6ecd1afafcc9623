//! Waiting for what clients say, and reading it.

use std::{mem, time::Duration};

use navlock_platform::readiness::Found;

use super::{
    super::awaited,
    State,
    connection::Read,
    sockets::{Sockets, socket_key},
};
use crate::clock;

impl<S: Sockets> State<S> {
    /// Waits until there is something to do, but no longer than `within` says. Whoever makes that less later ends the
    /// wait.
    pub(super) fn wait(&mut self, within: impl Fn() -> Option<Duration>) {
        if self.is_left() {
            return;
        }
        let Self { readiness, unread, daemon, wanted, .. } = self;
        let is_due =
            || !wanted.is_empty() || daemon.leaving.is_left() || daemon.next_turn.is_awaited();
        readiness.wait(unread, || if is_due() { Some(Duration::ZERO) } else { within() });
        // A wait that finds nothing may not have looked.
        let told = unread.len();
        unread.retain(|found| !awaited::tell(*found));
        // What tasks wait for came in the same answer, which then is not that of one connection.
        let is_one =
            told == 1 && matches!(self.unread[..], [Found { is_sure: true, has_ended: false, .. }]);
        let is_awaited = self.daemon.next_turn.is_awaited();
        // Whoever waits for the turn waits for all that was sent before, and not for one message.
        self.has_one = is_one && self.listed == 0 && self.full == 0 && !is_awaited;
        if told > 0 {
            self.looked(0);
        }
    }

    /// The system has looked, and has told what is not read from this place on.
    fn looked(&mut self, from: usize) {
        let before = self.looks;
        (self.looks, self.listed) = (before + 1, 0);
        for told in from..self.unread.len() {
            let key = self.unread[told].key / 2;
            // It may have come to the list again while the look went through that.
            if self.connections.get(key).is_some_and(|connection| connection.listed == before) {
                self.may_be_listed(key);
            }
        }
    }

    /// This connection may be in the system's list although it has nothing.
    pub(super) fn may_be_listed(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        self.listed += usize::from(mem::replace(&mut connection.listed, self.looks) != self.looks);
    }

    /// Reads what was sent before a moment, and perhaps some of what was sent since.
    pub(super) fn read(&mut self) {
        if self.has_one {
            self.read_found();
            // More may have been sent before an end, and before what comes in many pieces.
            self.has_one = self.ended.is_empty() && self.unread.is_empty();
        }
        if !self.has_one {
            self.now = clock::now();
            let told = self.unread.len();
            self.readiness.ask(&mut self.unread);
            self.unread.retain(|found| !awaited::tell(*found));
            self.looked(told);
            self.read_found();
        }
    }

    /// Reads the connections that have something.
    fn read_found(&mut self) {
        let mut found = mem::replace(&mut self.unread, mem::take(&mut self.ready));
        for Found { key: found, has_ended, is_sure } in found.drain(..) {
            let (key, is_process) = (found / 2, found % 2 == 1);
            let Some(connection) = self.connections.get_mut(key) else { continue };
            let was_read = mem::replace(&mut connection.read_after, self.looks) == self.looks;
            if is_process {
                connection.die();
            } else if has_ended {
                connection.has_ended();
            } else if was_read {
                // The wait has found it as well as the question.
                continue;
            }
            if connection.session.user().is_some_and(|user| !user.may_be_read(self.looks)) {
                // The user's other connections have said enough in this turn. Others come first.
                self.unread.push(Found::unsure(socket_key(key)));
                self.may_be_listed(key);
                continue;
            }
            let (before, was_between) = (self.frames.len(), connection.is_between_messages());
            let read = connection.read(key, self.now, &mut self.buffer, &mut self.frames);
            let is_exact = was_between && connection.is_between_messages();
            let awaits_room = connection.awaits_room();
            if !is_sure || !is_exact || self.frames.len() != before + 1 {
                self.may_be_listed(key);
            }
            match read {
                Read::All => {}
                Read::More => self.unread.push(Found::unsure(socket_key(key))),
                Read::End(end) => self.ended.push((key, end)),
            }
            if awaits_room {
                self.wanted.want(key);
            }
        }
        self.ready = found;
    }
}
