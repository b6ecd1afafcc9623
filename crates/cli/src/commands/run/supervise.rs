//! Watching over a running command: its end, signals to this process, and the loss of its locks.
//!
//! Everything that can fail is done before there is a command. So it never happens that a running
//! command has to be killed for lack of means to watch it. A thread that reads the broker's messages
//! is started only when there is news of the command's locks. If that thread cannot be started, the
//! supervisor's own thread reads the messages.

use std::{
    process::{Child, ExitStatus},
    task::{Context, Poll, Waker},
    time::Duration,
};

use navlock::{BrokerReach, LockGuard, Lost, ResourceName, host::Term};
use navlock_platform::{
    family::Family,
    process::{Handle, Signal, child_has_ended, ended_by},
    signal::{PassedOn, Told},
    wait::{self, BorrowedSource, Interest, Source},
};

use super::super::stream_waker::stream_waker;
use crate::{
    args::OnLost,
    exit::{Failure, NOT_EXECUTABLE, mention},
    settings::STARTED_BY,
    text::quoted_name,
    time::uptime,
};

/// How long a command that has lost its lock may take to end, unless a grace was given.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// How long a process that was killed may take to end before `navlock` stops waiting for it. A
/// process that waits for a disk cannot end.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the supervisor checks whether the command has ended, where it has no handle that tells the
/// end. A signal tells the end there, but the signal may be blocked. The supervisor also checks the time
/// this often, because the clock that measures sleeps may stand still.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// What the command does at the moment when people are told of the loss of a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Runs,
    HasEnded,
}

/// Catches signals, from before the command starts until it has ended.
pub(super) struct Supervisor {
    signals: PassedOn,
    /// Writes a byte into the stream of the signals, which makes the supervisor look at the locks.
    waker: Waker,
    family: Family,
}

/// What has to be done with a command that has lost a lock.
#[derive(Clone, Copy)]
pub(super) struct Policy {
    pub(super) on_lost: OnLost,
    /// How long the command may take to end after it was told to.
    pub(super) grace: Duration,
}

/// What became of the command.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// Whether a lock was lost before the command ended.
    pub(super) lost: bool,
    /// Whether a signal has ended the command, or was passed on to it.
    pub(super) was_told: bool,
}

impl Supervisor {
    /// From now on, catches the signals that have to be forwarded.
    pub(super) fn new() -> Result<Self, Failure> {
        let caught = PassedOn::catch();
        let caught = caught.map(|(signals, stream)| Self {
            signals,
            waker: stream_waker(stream),
            family: Family::new(STARTED_BY),
        });
        caught.map_err(|error| {
            Failure::new(NOT_EXECUTABLE, format_args!("cannot catch signals: {error}"))
        })
    }

    /// To be called right after the start of the command. On Windows, processes that the command
    /// starts belong to its job only after this call.
    pub(super) fn begins(&mut self, child: &Child) {
        self.family.begins(child);
    }

    /// Waits until the command has ended and, where [`Ending`] says so, all that it has started.
    /// [`begins`](Self::begins) has to be called before. Calls `tell` for each of the command's locks that is
    /// lost before that. At the first loss, applies the policy to the command and to the processes that the
    /// command has started. `reach` is the connection of the locks.
    pub(super) fn wait(
        mut self,
        mut child: Child,
        guards: &[LockGuard],
        reach: &BrokerReach,
        policy: Policy,
        mut tell: impl FnMut(&ResourceName, Lost, Command),
    ) -> Result<Ended, Failure> {
        let note = |told: Told| (told, uptime());
        let mut told = self.signals.pass_on_early(&child).pop().map(note);
        let process = Handle::of_child(&child).ok();
        let waker = self.waker.clone();
        let context = Context::from_waker(&waker);
        let mut known = vec![false; guards.len()];
        let mut ending = Ending::default();
        loop {
            // FAST: mostly the broker says nothing of a lock while its command runs. Until it says
            // something, no thread need read the connection. Asking the guards (`is_lost`) reads what
            // the broker has said.
            let is_lost = guards.iter().any(LockGuard::is_lost);
            let pending_source = if is_lost { None } else { reach.pending_source() };
            // When the connection has a thread of its own, that thread calls the waker, which wakes
            // the supervisor's thread.
            let is_read = pending_source.is_some() || reach.keep().is_ok();
            let lost = if pending_source.is_some() {
                Vec::new()
            } else {
                newly_lost(guards, &mut known, &context)
            };
            if !lost.is_empty() && policy.on_lost != OnLost::Ignore {
                if ending.kill_at.is_none() && policy.on_lost == OnLost::Terminate {
                    self.family.signal(Signal::TERMINATE);
                }
                let term = guards.first().and_then(LockGuard::term);
                let ends = lost.iter().map(|&(_, how)| policy.kill_at(how, term, uptime()));
                ending.kill_at = ending.kill_at.into_iter().chain(ends).min();
            }
            let command = ending.status.map_or(Command::Runs, |_| Command::HasEnded);
            for (name, how) in lost {
                tell(name, how, command);
            }
            self.family.reap();
            if let Some(status) = ending.status {
                if ending.is_over(&self.family, guards, is_lost) {
                    let (lost, was_told) = (known.contains(&true), ending.was_told);
                    return Ok(Ended { status, lost, was_told });
                }
            }
            let checks = ending.kill_at.is_some() || ending.status.is_some() || !is_read;
            let broker = pending_source.as_ref().map(Source::source);
            let running = ending.status.is_none().then_some(&child);
            let signals = self.signals.source();
            let (has_ended, has_word) =
                wait(running, process.as_ref(), signals, broker, ending.kill_at, checks);
            if let Some(now) = self.signals.pass_on(running).pop() {
                // What goes on after the command's end is ended by the next signal, once people were told. Some
                // programs send a signal twice at once, to this process and to its group.
                if running.is_none() && ending.tell_at.is_none() {
                    ending.kill_at = Some(uptime());
                }
                told = Some(note(now));
            }
            if has_ended && ending.status.is_none() {
                let status = child.wait().map_err(|error| {
                    let message = format!("cannot wait for the command: {error}");
                    Failure::new(NOT_EXECUTABLE, message)
                })?;
                self.family.command_has_ended();
                // A loss in the command's last moments counts as well. It is enough that the broker
                // has sent the news by now. The thread that reads the connection need not have read
                // it yet.
                if has_word || pending_source.is_none() {
                    reach.read_pending();
                    for (name, how) in newly_lost(guards, &mut known, &context) {
                        tell(name, how, Command::HasEnded);
                    }
                }
                ending.command_has_ended(status, told, &self.family, policy.grace);
            }
            if ending.kill_at.is_some_and(|at| at <= uptime()) {
                self.family.kill();
                ending.killed.get_or_insert_with(uptime);
                // After a while the processes are killed again, in case one of them is left.
                ending.kill_at = Some(uptime() + CHECK_INTERVAL);
            }
        }
    }
}

/// How the work under the locks ends.
///
/// A command that ends by itself may leave processes behind, which hold nothing. But if a signal has ended the
/// command, or was passed on to it, or a lock was lost, its processes have not been left behind on purpose.
/// They get the signal as well, and the locks stay held until the last of them has ended. If the grace is over,
/// or another signal comes, they are killed.
#[derive(Default)]
struct Ending {
    /// How the command has ended, once it has.
    status: Option<ExitStatus>,
    /// Whether a signal has ended the command, or was passed on to it.
    was_told: bool,
    /// When processes that still work are killed.
    kill_at: Option<Duration>,
    /// When they were killed first.
    killed: Option<Duration>,
    /// When people are told which processes are waited for, unless they were.
    tell_at: Option<Duration>,
}

impl Ending {
    /// The command has ended, and before that a signal may have come.
    fn command_has_ended(
        &mut self,
        status: ExitStatus,
        told: Option<(Told, Duration)>,
        family: &Family,
        grace: Duration,
    ) {
        self.status = Some(status);
        // A program that goes on after ^C, or reads its settings anew on HUP, ends by itself later.
        let may_go_on = |told: Told| [Signal::INTERRUPT, Signal::HANG_UP].contains(&told.signal);
        let told =
            told.filter(|&(told, at)| !may_go_on(told) || uptime() <= at.saturating_add(grace));
        let by_signal = || {
            ended_by(status)?;
            Some(Told { signal: Signal::TERMINATE, to_group: false })
        };
        let Some(told) = told.map(|(told, _)| told).or_else(by_signal) else { return };
        self.was_told = true;
        if self.kill_at.is_none() && !family.has_ended() {
            family.pass_on(told);
            self.tell_at = Some(uptime() + CHECK_INTERVAL);
            self.kill_at = Some(uptime().saturating_add(grace));
        }
    }

    /// Whether nothing is waited for any more, once the command has ended.
    fn is_over(&mut self, family: &Family, guards: &[LockGuard], is_lost: bool) -> bool {
        // Without a signal and a loss, what the command has left behind is not waited for.
        if self.kill_at.is_none() || family.has_ended() {
            return true;
        }
        let now = uptime();
        let are_stuck = self.killed.is_some_and(|at| now >= at.saturating_add(END_TIMEOUT));
        if !are_stuck && self.tell_at.is_none_or(|at| now < at) {
            return false;
        }
        self.tell_at = None;
        let left = family.names().join(", ");
        let names = guards.iter().map(|guard| quoted_name(guard.name()));
        let names = names.collect::<Vec<_>>().join(", ");
        let said = if !are_stuck {
            format!(
                "{names} stays held while {left} works; another signal or the end of --grace ends it"
            )
        } else if is_lost {
            format!("{left} could not be ended, and may work on without the lock")
        } else {
            format!("{left} could not be ended; {names} stays held until it has ended")
        };
        mention(said);
        are_stuck
    }
}

impl Policy {
    /// When the work under a lock that was lost in this way has to be killed, given the lock's term
    /// and the present time.
    fn kill_at(self, how: Lost, term: Option<Term>, now: Duration) -> Duration {
        let grace = match self.on_lost {
            OnLost::Kill => Duration::ZERO,
            OnLost::Terminate | OnLost::Ignore => self.grace,
        };
        let kill_at = now.saturating_add(grace);
        match (how, term) {
            // The lease has run out by our clock. Others are granted the lock when it has run out
            // for etcd as well.
            (Lost::Disconnected, Some(term)) if term.ends <= now => {
                kill_at.min(term.expires.saturating_sub(reserve(margin(term))))
            }
            // The lease has ended before its time, so others may have the lock already.
            (Lost::Disconnected, Some(_)) => now,
            _ => kill_at,
        }
    }
}

/// The time from the holder's loss of a lock to the first moment at which others can be granted the
/// lock.
pub(super) fn margin(term: Term) -> Duration {
    term.expires.saturating_sub(term.ends)
}

/// The last part of a margin, in which processes are killed, and not only told to end. This is a
/// quarter of the margin, but at least a quarter of a second, and at most half of the margin.
pub(super) fn reserve(margin: Duration) -> Duration {
    (margin / 4).max(Duration::from_millis(250)).min(margin / 2)
}

/// Waits until the command, if it runs, has ended, `signals` can be read, the broker says something, or
/// the deadline has come. The end of another process can be read from `signals`. If `checks` is set, waits
/// until the next check at most. Returns whether the command has ended, and whether the broker has said
/// something.
///
/// `process` can be read when the command has ended; `None` where the system has no such handle, or none left.
/// To notice the end does not reap the command. So the command keeps its process id until the end is known to
/// the code that sends signals to the command. Hence no signal goes to another process that was given the
/// same id.
fn wait(
    child: Option<&Child>,
    process: Option<&Handle>,
    signals: BorrowedSource<'_>,
    broker: Option<BorrowedSource<'_>>,
    deadline: Option<Duration>,
    checks: bool,
) -> (bool, bool) {
    let process = process.filter(|_| child.is_some()).map(Source::source);
    let next_check = (process.is_none() || checks).then_some(CHECK_INTERVAL);
    let left = deadline.map(|deadline| deadline.saturating_sub(uptime()));
    let timeout = next_check.into_iter().chain(left).min();
    // In place of a source that is missing, `signals` is waited for once more. That does no harm:
    // it gives the same answer twice.
    let asked =
        [Some(signals), process, broker].map(|asked| (asked.unwrap_or(signals), Interest::READ));
    // An error means that a signal has come, which can be read from `signals`.
    let came = wait::wait(asked, timeout).unwrap_or_default();
    let has_ended = match (child, process) {
        (Some(_), Some(_)) => came[1].any(),
        (Some(child), None) => child_has_ended(child),
        (None, _) => false,
    };
    (has_ended, broker.is_some() && came[2].any())
}

/// The locks that are lost and whose loss was not known before.
fn newly_lost<'a>(
    guards: &'a [LockGuard],
    known: &mut [bool],
    context: &Context<'_>,
) -> Vec<(&'a ResourceName, Lost)> {
    let unknown = guards.iter().zip(known).filter(|(_, known)| !**known);
    let lost = unknown.filter_map(|(guard, known)| match guard.poll_lost(context) {
        Poll::Ready(how) => {
            *known = true;
            Some((guard.name(), how))
        }
        Poll::Pending => None,
    });
    lost.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_under_a_lost_lock_is_killed_before_others_may_have_the_lock() {
        let at = Duration::from_millis;
        let term =
            |ends, expires| Some(Term { now: at(0), heard: at(0), due: at(0), ends, expires });
        let policy = Policy { on_lost: OnLost::Terminate, grace: GRACE };
        let of = |how, term, now| policy.kill_at(how, term, at(now));
        let run_out = Lost::Disconnected;
        // It is killed a quarter of the margin before the end of the lease or, if the margin is small, a
        // quarter of a second before that end.
        assert_eq!(of(run_out, term(at(8000), at(10_000)), 8000), at(9500));
        assert_eq!(of(run_out, term(at(4000), at(5000)), 4001), at(4750));
        assert_eq!(of(run_out, term(at(4500), at(5000)), 4500), at(4750));
        assert_eq!(of(run_out, term(at(5000), at(5000)), 5000), at(5000));
        // It is killed when the grace is over, if that is earlier.
        assert_eq!(of(run_out, term(at(40_000), at(80_000)), 40_000), at(45_000));
        // The loss was noticed too late, as by a machine that was suspended.
        assert!(of(run_out, term(at(8000), at(10_000)), 60_000) < at(60_000));
        // The lease ended before its time.
        assert_eq!(of(run_out, term(at(8000), at(10_000)), 3000), at(3000));
        // Others have the lock already, or the lock has no lease that ends.
        assert_eq!(of(Lost::Stolen, term(at(8000), at(10_000)), 3000), at(8000));
        assert_eq!(of(run_out, None, 3000), at(8000));
        let policy = Policy { on_lost: OnLost::Kill, ..policy };
        assert_eq!(policy.kill_at(Lost::Stolen, None, at(3000)), at(3000));
    }
}
