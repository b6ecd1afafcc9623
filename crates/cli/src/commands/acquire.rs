//! Acquiring one lock or several, as the arguments ask.

use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::Pin,
    slice,
    task::{self, Poll},
    time::{Duration, Instant},
};

use navlock::{
    BrokerReach, ConnectOptions, Error, FailedName, Lock, LockAllError, LockAllFuture, LockGuard,
    LockManager, LockOptions, Lost, Position, ResourceName, blocking::block_on_timeout,
    look::InDeadlock,
};
use navlock_broker::{Reason, stopped_broker};

use super::{Context, inside::is_in_the_way, meeting::tell_of_sudo};
use crate::{
    args::{RequestArgs, Take},
    exit::{self, Failure},
    settings::kind_at,
    text::{printable, quoted_name},
    time::{elapsed, seconds, taken},
    verbosity::Verbosity,
    waiting::{Waiting, holders},
};

/// How long the broker may take to answer a command that waits for less than this, or that does not
/// wait. A broker that has to be started, or that takes over from a killed one, needs a while to
/// answer.
const ANSWER: Duration = Duration::from_secs(2);

/// How long the broker may take to say who holds the lock and who is ahead.
const POSITION: Duration = Duration::from_millis(300);

/// How long a wait lasts before it is asked whether this process waits for itself.
const OWN_AFTER: Duration = Duration::from_millis(50);

/// A request for locks, as the arguments ask for it, by a connection that is there.
pub(super) struct Request<'a> {
    context: &'a Context,
    args: &'a RequestArgs,
    pub(super) reach: BrokerReach,
    pub(super) locks: LockManager,
    began: Instant,
    /// How long the locks may take to be granted, if there is a bound. The time to reach the broker counts as well.
    timeout: Option<Duration>,
}

/// The outcome of a wait, or the event that interrupts it.
enum Event {
    Answered(Answer),
    /// A lock was taken, and the wait for the next one begins.
    Taken,
    /// The request waits for a lock inside which this process runs.
    Own,
    /// The request waits for holders that wait for this process, directly or through others.
    Deadlock(InDeadlock),
    /// There is something new to show.
    Shown,
}

/// The question whether this process waits for itself.
type Asked = Pin<Box<dyn Future<Output = bool>>>;

/// The answer to a request for several locks: `None` if one of them is not available at once.
type Answer = Result<Option<Vec<LockGuard>>, LockAllError>;

impl<'a> Request<'a> {
    /// Connects to the broker.
    pub(super) fn new(context: &'a Context, args: &'a RequestArgs) -> Result<Self, Failure> {
        tell_of_sudo(context);
        let (began, timeout) = (Instant::now(), args.limit()?);
        let in_time = timeout.map(|timeout| timeout.max(ANSWER));
        let reach = context
            .connect(in_time.into_iter().fold(context.options(), ConnectOptions::timeout))?;
        let locks = context.lock_manager(&reach);
        Ok(Self { context, args, reach, locks, began, timeout })
    }

    /// Acquires the locks of these names, in the way of [`lock_all`](LockManager::lock_all) or
    /// [`lock_any`](LockManager::lock_any).
    pub(super) fn acquire(
        &self,
        names: &[ResourceName],
        take: Take,
    ) -> Result<Vec<LockGuard>, Failure> {
        let Self { args, locks, timeout, .. } = self;
        let steal = take == Take::Stolen;
        let mut deadline = timeout.and_then(|timeout| self.began.checked_add(timeout));
        // A command that does not wait still gives the broker the time that it needs to answer.
        let at_once = deadline.is_some_and(|deadline| deadline <= Instant::now());
        if at_once {
            let in_time = timeout.and_then(|timeout| self.began.checked_add(timeout.max(ANSWER)));
            deadline = in_time.max(Instant::now().checked_add(ANSWER / 4));
        }
        let options = LockOptions {
            mode: args.mode(),
            if_available: at_once && !steal,
            steal,
            // A request with a deadline gives up by itself, as a request with a signal may, so it keeps
            // nobody waiting for ever.
            signal: deadline.is_some() && !at_once && !steal,
        };
        let with_modes = names.iter().map(|name| (name.clone(), args.mode_of(name)));
        let mut request = match take {
            Take::Any => locks.lock_any_with(with_modes).with_options(options),
            Take::All | Take::Stolen => locks.lock_all_with(with_modes).with_options(options),
        };
        if args.deadlock_exit_code.is_some() {
            request = request.fail_on_deadlock();
        }
        let mut request = request.into_future();
        let first = if take == Take::Any { names.first() } else { names.iter().min() };
        let Some(first) = first else {
            return Ok(Vec::new());
        };
        // What waits for one of several names waits for itself only if it runs inside all of them.
        let any = if take == Take::Any { names } else { &[] };
        let any = Some(any).filter(|_| !options.if_available && !steal);
        let answer = self.wait(&mut request, first, any, deadline);
        let name = request.name().unwrap_or(first).clone();
        // From here on nothing is held except what is in the answer, and nothing is waited for.
        drop(request);
        match answer? {
            Some(Ok(Some(guards))) => Ok(guards),
            Some(Err(failed)) => Err(failure(failed, names.len(), args)),
            // A command that did not want to wait for the lock does not wait long for this answer either.
            Some(Ok(None)) => match self.context.verbosity {
                Verbosity::Quiet => Err(Failure::silent(args.conflict_exit_code)),
                _ => Err(self.conflict(&name, None, self.ask(&name).ok().flatten().as_ref())),
            },
            None => match self.ask(&name) {
                // Nobody is known to have the lock.
                Err(outage) => {
                    let message = conflict_message(&quoted_name(&name), *timeout, Err(&outage));
                    Err(Failure::new(exit::UNREACHABLE, message))
                }
                Ok(None) if at_once => {
                    let name = quoted_name(&name);
                    let why = "the broker grants nothing for the moment, as when it takes over from one \
                               that was killed; wait for it with -w";
                    self.context.verbosity.tell(format_args!("{name}: {why}"));
                    Err(Failure::silent(args.conflict_exit_code))
                }
                Ok(known) => Err(self.conflict(&name, *timeout, known.as_ref())),
            },
        }
    }

    /// Waits for the locks, the first of which is `first`, and tells people of the wait for each lock. `None` if
    /// there is no answer in time. If one of the names of `any` is enough, these are not empty.
    ///
    /// # Errors
    ///
    /// If the wait would be for a lock inside which this process runs. This is not checked where `any` is `None`.
    fn wait(
        &self,
        request: &mut LockAllFuture<Option<Vec<LockGuard>>>,
        first: &ResourceName,
        any: Option<&[ResourceName]>,
        deadline: Option<Instant>,
    ) -> Result<Option<Answer>, Failure> {
        let Self { context, args, locks, .. } = self;
        let mut waiting = Waiting::new(
            locks,
            &context.place,
            first.clone(),
            args.mode_of(first),
            context.verbosity,
        );
        // How many of the locks people were told of.
        let mut told = 0;
        let mut since = Instant::now();
        let mut is_in_deadlock = false;
        let is_own = |name: &ResourceName| {
            let any = any?;
            let names = if any.is_empty() { slice::from_ref(name) } else { any };
            let names = names.iter().map(|name| (name.clone(), args.mode_of(name))).collect();
            Some::<Asked>(Box::pin(is_in_the_way(locks.clone(), names)))
        };
        // FAST: mostly the lock is granted before anything is asked.
        let mut own: Option<Asked> = None;
        let mut own_due = Some(since + OWN_AFTER);
        loop {
            let until = deadline.into_iter().chain(waiting.next()).chain(own_due).min();
            let left = until
                .map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            let event = poll_fn(|context| {
                // The grant comes first, so that nothing that is shown delays it.
                if let Poll::Ready(answer) = Pin::new(&mut *request).poll(context) {
                    return Poll::Ready(Event::Answered(answer));
                }
                if request.taken().len() > told {
                    return Poll::Ready(Event::Taken);
                }
                if let Some(Poll::Ready(is_own)) =
                    own.as_mut().map(|own| own.as_mut().poll(context))
                {
                    own = None;
                    if is_own {
                        return Poll::Ready(Event::Own);
                    }
                }
                if !is_in_deadlock {
                    if let Some(deadlock) = request.deadlock() {
                        return Poll::Ready(Event::Deadlock(deadlock));
                    }
                }
                waiting.poll(context).map(|()| Event::Shown)
            });
            match block_on_timeout(event, left) {
                Some(Event::Answered(answer)) => {
                    // The line of this wait is wiped out first.
                    drop(waiting);
                    if let Ok(Some(guards)) = &answer {
                        let locks = guards.iter().map(|guard| &**guard);
                        tell_of(context, locks.skip(told), since);
                    }
                    return Ok(Some(answer));
                }
                Some(Event::Taken) => {
                    let next = request.name().expect("the next one is waited for");
                    (own, own_due) = (None, Some(Instant::now() + OWN_AFTER));
                    waiting.begin_next(next.clone(), args.mode_of(next));
                    tell_of(context, request.taken().skip(told), since);
                    (told, since, is_in_deadlock) = (request.taken().len(), Instant::now(), false);
                }
                Some(Event::Own) => {
                    let name = quoted_name(request.name().unwrap_or(first));
                    let message = "this runs inside the lock already, and would wait for itself; \
                                   'navlock run --reentrant' runs a command without taking the lock \
                                   again";
                    let code = args.deadlock_exit_code.unwrap_or(exit::OWN_LOCK);
                    return Err(Failure::new(code, format_args!("{name}: {message}")));
                }
                Some(Event::Deadlock(deadlock)) => {
                    is_in_deadlock = true;
                    waiting.tell(&deadlock.told);
                }
                Some(Event::Shown) => {}
                None if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    return Ok(None);
                }
                None => {
                    if own_due.take_if(|due| *due <= Instant::now()).is_some() {
                        own = is_own(request.name().unwrap_or(first));
                    }
                    waiting.tick();
                }
            }
        }
    }

    /// Asks who holds the lock and who is ahead. `None` if that is not known; an error says why nothing that keeps
    /// the locks answers.
    fn ask(&self, name: &ResourceName) -> Result<Option<Position>, String> {
        if let Some((silent, _)) = self.locks.term().and_then(|term| term.suspended()) {
            let store = kind_at(&self.context.place);
            return Err(format!("{store} has not answered for {}", elapsed(silent)));
        }
        match block_on_timeout(self.locks.position(name.clone()), POSITION) {
            Some(Ok(known)) => Ok(Some(known)),
            Some(Err(Error::Unreachable(why))) => Err(printable(why.message())),
            Some(Err(_)) => Ok(None),
            None => match stopped_broker(&self.context.place) {
                Some(pid) => Err(Reason::Stopped(pid).to_string()),
                None => Ok(None),
            },
        }
    }

    /// The end of a command that could not acquire the lock, or not in time, where the arguments allow
    /// for that.
    fn conflict(
        &self,
        name: &ResourceName,
        timeout: Option<Duration>,
        known: Option<&Position>,
    ) -> Failure {
        let holders = known.and_then(holders);
        let message = conflict_message(&quoted_name(name), timeout, Ok(holders.as_deref()));
        self.context.verbosity.tell(message);
        Failure::silent(self.args.conflict_exit_code)
    }
}

/// Tells of locks that were taken, if `--verbose` was given.
fn tell_of<'a>(context: &Context, locks: impl Iterator<Item = &'a Lock>, since: Instant) {
    for lock in locks {
        context.verbosity.detail(format_args!(
            "took {} ({}) after {}; fence {}",
            quoted_name(lock.name()),
            lock.mode(),
            taken(since.elapsed()),
            lock.fencing_token()
        ));
    }
}

/// Why these locks, or this one, could not be had.
fn failure(failed: LockAllError, count: usize, args: &RequestArgs) -> Failure {
    match (failed.error, failed.at) {
        (Error::Deadlock(told), Some(FailedName::Name(name))) => {
            let code = args.deadlock_exit_code.unwrap_or(exit::CONFLICT);
            Failure::new(code, format_args!("{}: {told}", quoted_name(&name)))
        }
        (Error::Lost(lost), Some(FailedName::Name(name))) => {
            Failure::new(exit::LOST, lost_message(&quoted_name(&name), lost, count))
        }
        (error, _) => error.into(),
    }
}

/// The message that a lock was lost before the command could run. The command was to run under `count`
/// locks.
fn lost_message(name: &str, lost: Lost, count: usize) -> String {
    let before = if count > 1 { ", before all locks were had" } else { "" };
    format!("{name}: {lost}{before}; try again")
}

/// The first of these locks that is lost, and how. If none is lost, each lock will wake this task
/// when it is lost.
pub(super) fn lost(
    guards: &[LockGuard],
    context: &task::Context<'_>,
) -> Option<(ResourceName, Lost)> {
    guards.iter().find_map(|guard| match guard.poll_lost(context) {
        Poll::Ready(lost) => Some((guard.name().clone(), lost)),
        Poll::Pending => None,
    })
}

/// Why a lock was not acquired: how long the command has waited, and who holds the lock, as far as it is
/// known, or why nothing that keeps the locks answers.
fn conflict_message(
    name: &str,
    timeout: Option<Duration>,
    holders: Result<Option<&str>, &str>,
) -> String {
    let timeout = timeout.filter(|timeout| !timeout.is_zero());
    let had = timeout.map_or_else(
        || "could not be had at once".to_owned(),
        |timeout| format!("could not be had within {}", seconds(timeout)),
    );
    match (timeout, holders) {
        (_, Err(outage)) => format!("{name} {had}: {outage}"),
        (None, Ok(Some(holders))) => format!("{name} is held by {holders}"),
        (None, Ok(None)) => format!("{name} cannot be had at once; see 'navlock query'"),
        (Some(_), Ok(holders)) => {
            let held = holders.map_or_else(String::new, |holders| format!(": held by {holders}"));
            format!("{name} {had}{held}; wait longer, or see 'navlock query'")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_speaks_of_other_locks_only_if_there_are_some() {
        let lost = |count| lost_message("\"db\"", Lost::Stolen, count);
        assert_eq!(lost(1), "\"db\": the lock was stolen by another request; try again");
        assert!(lost(2).contains("request, before all locks were had; try"), "{}", lost(2));
    }

    #[test]
    fn a_conflict_names_the_holder_as_far_as_it_is_known() {
        let second = Some(Duration::from_secs(1));
        for (timeout, holders, told) in [
            (None, Some("make[7] for 3m"), "\"db\" is held by make[7] for 3m"),
            (None, None, "\"db\" cannot be had at once; see 'navlock query'"),
            (
                second,
                Some("make[7] for 3m"),
                "\"db\" could not be had within 1 s: held by make[7] for 3m; wait longer, or see \
                 'navlock query'",
            ),
            (
                second,
                None,
                "\"db\" could not be had within 1 s; wait longer, or see 'navlock query'",
            ),
            (Some(Duration::ZERO), Some("make[7]"), "\"db\" is held by make[7]"),
        ] {
            assert_eq!(conflict_message("\"db\"", timeout, Ok(holders)), told);
        }
        let outage = "etcd has not answered for 3 s";
        for (timeout, told) in [
            (second, "\"db\" could not be had within 1 s: etcd has not answered for 3 s"),
            (None, "\"db\" could not be had at once: etcd has not answered for 3 s"),
        ] {
            assert_eq!(conflict_message("\"db\"", timeout, Err(outage)), told);
        }
    }
}
