//! What is promised to whom: which of the events may happen.
//!
//! Every case in which the judge allows a worker to lose a lock stands in docs/crashes.md.

use crate::{
    history::{History, Hold, Instance, Kind, Suspicion},
    options::{Options, Reach},
};

/// A second, in the unit of events.
pub(crate) const SECOND: u64 = 1_000_000;

/// The time to live of leases in seconds, where locks are leased.
pub(crate) const TIME_TO_LIVE: u64 = 6;

pub(crate) struct Judge<'a> {
    pub(crate) history: &'a History,
    pub(crate) reach: Reach,
    /// Whether names can be owned.
    pub(crate) delegates: bool,
}

/// The judgement on a suspicion.
pub(crate) enum Verdict {
    /// It is allowed, for this reason.
    Excused(&'static str),
    Violation(String),
}

impl<'h> Judge<'h> {
    pub(crate) fn new(history: &'h History, options: &Options) -> Self {
        Self { history, reach: options.reach, delegates: options.has("delegation") }
    }

    pub(crate) fn judge(&self, at: u64, suspicion: &Suspicion) -> Verdict {
        match suspicion {
            Suspicion::Conflict { holder, name, token, other } => {
                self.conflict(at, *holder, name, *token, *other)
            }
            Suspicion::Token { holder, name, token, other, others } => {
                let late = self.may_overlap(*holder, name, at);
                // Otherwise the other one may never have been granted what it believes to hold.
                match late.or_else(|| self.may_overlap(*others, name, at)) {
                    Some(reason) => Verdict::Excused(reason),
                    None => Verdict::Violation(format!(
                        "{holder} has {name} with token {token} after {others} had it with {other}: {:?}, {:?}",
                        self.history.instances.get(holder),
                        self.history.instances.get(others),
                    )),
                }
            }
            Suspicion::Overtaken { holder, name, times, other } => {
                match self
                    .may_overlap(*holder, name, at)
                    .or_else(|| self.lost_its_place(*holder, at))
                {
                    Some(reason) => Verdict::Excused(reason),
                    None => Verdict::Violation(format!(
                        "{holder} waited for {name} while {other} was granted it {times} times: {:?}, {:?}",
                        self.history.instances.get(holder),
                        self.history.instances.get(other),
                    )),
                }
            }
            Suspicion::Never { instance, said } => Verdict::Violation(format!(
                "{instance}: {said}: {:?}",
                self.history.instances.get(instance)
            )),
            Suspicion::Dying { holder, name, other } => self.dying(at, *holder, name, *other),
            Suspicion::Loss { instance, said } | Suspicion::Failure { instance, said } => {
                let reason = match suspicion {
                    Suspicion::Loss { .. } => self.may_lose(*instance, said.split(' ').next(), at),
                    _ => self.may_fail(*instance, at),
                };
                match reason {
                    Some(reason) => Verdict::Excused(reason),
                    None => Verdict::Violation(format!(
                        "{instance} {} without a cause: {said}: {:?}",
                        suspicion.what(),
                        self.history.instances.get(instance)
                    )),
                }
            }
        }
    }

    fn conflict(&self, at: u64, holder: u64, name: &str, token: u64, other: i32) -> Verdict {
        let others = self.hold_of(at, holder, name, other);
        let owner = || self.process(other);
        let is_left = |hold: &Hold| self.is_left_behind(hold.instance, at);
        if others.is_some_and(is_left) {
            return Verdict::Excused("what a command leaves behind by itself does not hold");
        }
        let reason = self.may_overlap(holder, name, at).or_else(|| {
            let other = others.map(|hold| hold.instance).or_else(owner)?;
            self.may_overlap(other, name, at)
        });
        let both = || {
            let instance = |id: u64| self.history.instances.get(&id);
            format!(
                "{holder} {:?}\n      with {others:?} {:?}",
                instance(holder),
                others.map(|hold| hold.instance).or_else(owner).and_then(instance)
            )
        };
        match (reason, others) {
            (Some("it was stopped, and comes back too late"), Some(hold))
                if self.is_client(hold.instance) && hold.to.is_some() && !hold.is_lost =>
            {
                Verdict::Violation(format!("overtaken and never told: {}", both()))
            }
            (Some(reason), _) => Verdict::Excused(reason),
            (None, _) => Verdict::Violation(format!(
                "two hold {name}, token {token} and process {other}: {}",
                both()
            )),
        }
    }

    /// A killed holder must have ended when the next holder begins.
    fn dying(&self, at: u64, holder: u64, name: &str, other: i32) -> Verdict {
        let hold = self.hold_of(at, holder, name, other);
        let owner = || self.process(other);
        let other = hold.map(|hold| hold.instance).or_else(owner);
        let others = other.and_then(|other| self.history.instances.get(&other));
        if self.reach != Reach::Broker {
            return Verdict::Excused("a lease that ends is all that other machines know");
        }
        if matches!(others.map(|it| &it.kind), Some(Kind::Run { in_shell: true, .. })) {
            return Verdict::Excused("what a command has started is not known by its process");
        }
        let late = || self.may_overlap(other?, name, at);
        match self.may_overlap(holder, name, at).or_else(late) {
            Some(reason) => Verdict::Excused(reason),
            // The process had gone before it was looked up.
            None if others.is_none() => Verdict::Excused("nobody knows who that was"),
            None => Verdict::Violation(format!(
                "{holder} has {name} before the end of {other:?}, which was killed: {others:?}"
            )),
        }
    }

    /// The hold by which a process was in another's way at `at`: the latest that had begun by then and had
    /// not ended a second before. A process that was stopped after it locked the file, and before it said
    /// that it holds, says so later. So if there is no such hold, the first later one is meant.
    fn hold_of(&self, at: u64, holder: u64, name: &str, pid: i32) -> Option<&'h Hold> {
        let is_its = |hold: &&Hold| {
            let is_over = hold.to.is_some_and(|to| to + SECOND <= at);
            hold.pid == pid && hold.name == name && hold.instance != holder && !is_over
        };
        let mut holds = self.history.holds.iter();
        let begun = holds.clone().rev().find(|hold| is_its(hold) && hold.from <= at);
        begun.or_else(|| holds.find(is_its))
    }

    /// The worker of this process, among the kinds of worker that do not say when they hold.
    fn process(&self, pid: i32) -> Option<u64> {
        let is_it = |instance: &Instance| {
            instance.pid == pid && matches!(instance.kind, Kind::Owner { .. } | Kind::Rogue)
        };
        let mut instances = self.history.instances.iter().rev();
        instances.find(|(_, instance)| is_it(instance)).map(|(id, _)| *id)
    }

    /// Whether the command was killed, so that its shell went on and ended by itself.
    fn is_left_behind(&self, instance: u64, at: u64) -> bool {
        self.history.instances.get(&instance).is_some_and(|it| {
            matches!(it.kind, Kind::Run { in_shell: true, .. })
                && it.command_killed.is_some_and(|killed| killed <= at)
        })
    }

    fn is_client(&self, instance: u64) -> bool {
        self.history
            .instances
            .get(&instance)
            .is_some_and(|instance| matches!(instance.kind, Kind::Client))
    }
}
