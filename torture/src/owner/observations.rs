//! What an owner observes while it works: how long it waits behind others, and what the broker shows.

use std::{
    future::Future,
    pin::pin,
    process,
    task::{Context, Poll, Waker},
};

use navlock::{Error, Mode, blocking::block_on_timeout};

use super::{OWNED, Owner};
use crate::worker::TIMEOUT;

impl Owner<'_> {
    /// Asks for a name that others take in a loop, and counts the grants that they get before its own.
    ///
    /// An answer of the broker to this client shows that the broker has read the request before. From then on
    /// the broker grants no later request before this one, so that each thread gets at most what that thread
    /// had asked for already.
    pub(super) fn ask_behind(&mut self, nth: usize) -> Result<(), Error> {
        let name = OWNED[nth];
        let mut request = pin!(self.locks.lock(name).into_owned());
        let before = self.oracles[nth].cells();
        if let Poll::Ready(guard) = request.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            let guard = guard?;
            self.hold(nth, guard, &before, true, false);
            return Ok(());
        }
        let asked = block_on_timeout(self.locks.query(), TIMEOUT)
            .ok_or(Error::TimedOut(String::new()))??;
        let since = self.oracles[nth].cells();
        self.check(&asked);
        if self.dice.chance(5) {
            // The request may have been granted by now.
            return Ok(());
        }
        let guard =
            block_on_timeout(request, TIMEOUT).unwrap_or(Err(Error::TimedOut(String::new())))?;
        let now = self.oracles[nth].cells();
        if !guard.is_lost() {
            let most = now
                .iter()
                .zip(&since)
                .map(|(now, since)| (now.turns.saturating_sub(since.turns), now.instance))
                .max();
            let (most, other) = most.expect("there are cells");
            let instance = self.instance;
            self.events.say(format_args!("behind {instance} {name} {most} {other}"));
        }
        self.hold(nth, guard, &before, true, false);
        Ok(())
    }

    /// Takes a name that nobody else knows, so that it is known at any time whether it is held.
    pub(super) fn alone(&mut self) -> Result<(), Error> {
        let own = self.own.clone();
        let mut last = 0;
        for _ in 0..=self.dice.below(40) {
            let mode = if self.dice.chance(4) { Mode::Shared } else { Mode::Exclusive };
            let request = self.locks.lock(&*own);
            let request = if mode == Mode::Shared { request.shared() } else { request };
            let guard = if self.dice.chance(4) {
                let Some(guard) = request.if_available().blocking_timeout(TIMEOUT)? else {
                    self.shown(&own, "is said to be held though nobody holds it");
                    continue;
                };
                guard
            } else {
                request.blocking_timeout(TIMEOUT)?
            };
            let token = guard.fencing_token().get();
            if token <= last {
                self.shown(&own, &format!("has token {token} after {last}"));
            }
            last = token;
            if self.dice.chance(20) {
                let query = self.locks.query();
                let found =
                    block_on_timeout(query, TIMEOUT).ok_or(Error::TimedOut(String::new()))??;
                self.check(&found);
                let mut held = found.held.iter().filter(|held| held.name == *own);
                let is_it = |held: &navlock::LockInfo| {
                    held.mode == mode && held.client_id == self.locks.client_id()
                };
                let is_right = held.next().is_some_and(is_it) && held.next().is_none();
                if !is_right && !guard.is_lost() {
                    self.shown(&own, &format!("is held, and shown as {:?}", found.held));
                }
            }
            if guard.is_lost() {
                self.events.say(format_args!(
                    "lost {} {own} {mode} {token} {}",
                    self.instance,
                    process::id()
                ));
            }
            drop(guard);
            if self.dice.chance(20) {
                self.look_for_own()?;
            }
        }
        self.look_for_own()
    }

    /// Checks that the broker does not show the name that nobody else knows as held, while it is not held.
    fn look_for_own(&mut self) -> Result<(), Error> {
        let own = &*self.own;
        let name = own.try_into().expect("it is a name");
        let inspect = self.locks.inspect(Some(name));
        let found = block_on_timeout(inspect, TIMEOUT).ok_or(Error::TimedOut(String::new()))??;
        let held = found.held.iter().chain(&found.pending).any(|held| held.lock.name == *own);
        if held {
            self.shown(own, &format!("is not held, and shown as {found:?}"));
        }
        let owned = found.owned.iter().filter(|owned| owned.lock.name == *own);
        let taken: u64 = owned.map(|owned| 1 + owned.taken).sum();
        if taken > 0 {
            self.events.say(format_args!("owns {} {own} {taken}", self.instance));
        }
        Ok(())
    }

    /// Looks at all names, holding one or none.
    pub(super) fn look_around(&mut self, nth: usize) -> Result<(), Error> {
        let name = OWNED[nth];
        let guard = match self.dice.below(2) {
            0 => None,
            _ => self.locks.lock(name).if_available().blocking_timeout(TIMEOUT)?,
        };
        let found = block_on_timeout(self.locks.query(), TIMEOUT)
            .ok_or(Error::TimedOut(String::new()))??;
        self.check(&found);
        if let Some(guard) = guard {
            let others = found.held.iter().filter(|held| held.name == *name);
            let others = others.filter(|held| held.client_id != self.locks.client_id()).count();
            if others > 0 && !guard.is_lost() {
                let (mode, token) = (guard.mode(), guard.fencing_token());
                let (instance, pid) = (self.instance, process::id());
                self.events.say(format_args!("conflict {instance} {name} {mode} {token} {pid} -1"));
            }
        }
        Ok(())
    }

    /// Checks that a snapshot shows no holder beside an exclusive one.
    fn check(&self, found: &navlock::LockManagerSnapshot) {
        for (nth, held) in found.held.iter().enumerate() {
            let beside = found.held[..nth].iter().find(|other| {
                other.name == held.name
                    && (other.mode == Mode::Exclusive || held.mode == Mode::Exclusive)
            });
            if let (Some(other), Some(name)) = (beside, held.name.as_str()) {
                self.shown(name, &format!("is shown as held by both {held:?} and {other:?}"));
            }
        }
    }

    /// Reports something that must never be.
    pub(super) fn shown(&self, name: &str, what: &str) {
        self.events.say(format_args!("never {} {name} {what}", self.instance));
    }
}
