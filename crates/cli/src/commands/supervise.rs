//! Watching over a running command: its end, our signals, its lock.

use std::{
    fs,
    process::{Child, ExitStatus},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock::{LockGuard, Lost, ResourceName};
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, getpgid, getpgrp, getpid, getsid, kill_process, waitid,
    },
};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM},
    iterator::{SignalsInfo, exfiltrator::WithOrigin},
    low_level::siginfo::{Cause, Origin},
};

use crate::{
    args::OnLost,
    exit::{Failure, NOT_EXECUTABLE},
};

/// How long a command that has lost its lock may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// What the command does while something is told of its locks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Runs,
    HasEnded,
}

/// Catches signals, from before there is a command until it has ended.
pub(super) struct Supervisor {
    signals: SignalsInfo<WithOrigin>,
}

/// What became of the command.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// Whether a lock was lost before that.
    pub(super) lost: bool,
}

enum Event {
    Signal(Origin),
    /// A lock may be lost.
    Woken,
    /// The command has ended.
    Ended,
}

impl Supervisor {
    /// Catches what is to be forwarded from now on.
    pub(super) fn new() -> Result<Self, Failure> {
        let ignored = ignored_signals();
        // What is ignored, as `nohup` has it, stays so for the command as well, which would not
        // inherit it if it were caught.
        let caught = [SIGHUP, SIGINT, SIGQUIT, SIGTERM]
            .into_iter()
            .filter(|signal| ignored >> (signal - 1) & 1 == 0)
            // Not to hear of it, which who has it blocked does not: where it is ignored, a child's
            // status is gone with the child.
            .chain([SIGCHLD]);
        let signals = SignalsInfo::<WithOrigin>::new(caught).map_err(|error| {
            Failure::new(NOT_EXECUTABLE, format_args!("cannot catch signals: {error}"))
        })?;
        Ok(Self { signals })
    }

    /// Waits until the command has ended. For each of its locks that is lost before that, calls
    /// `tell`, and with the first does to the command what is to be done.
    pub(super) fn wait(
        mut self,
        mut child: Child,
        guards: &[LockGuard],
        on_lost: OnLost,
        mut tell: impl FnMut(&ResourceName, Lost, Command),
    ) -> Result<Ended, Failure> {
        // What came before the command was there is told it now, also by the terminal's ^C.
        for early in self.signals.pending() {
            if let Some(signal) = signal(&early) {
                send(&child, signal);
            }
        }
        let watched = self.watch(&child);
        if watched.is_err() {
            let _ = child.kill();
        }
        let (events, sender) = watched?;
        let waker = Waker::from(Arc::new(Notify(sender)));
        let context = Context::from_waker(&waker);
        let mut known = vec![false; guards.len()];
        let mut kill_at = None;
        loop {
            let were_known = known.contains(&true);
            let lost = newly_lost(guards, &mut known, &context);
            if !lost.is_empty() && !were_known {
                match on_lost {
                    OnLost::Term => {
                        kill_at = Some(Instant::now() + GRACE);
                        send(&child, Signal::TERM);
                    }
                    OnLost::Kill => send(&child, Signal::KILL),
                    OnLost::Ignore => {}
                }
            }
            for (name, how) in lost {
                tell(name, how, Command::Runs);
            }
            match receive(&events, kill_at) {
                Ok(Event::Signal(origin)) => forward(&child, &origin),
                Ok(Event::Woken) => {}
                Ok(Event::Ended) => {
                    let status = child.wait().map_err(|error| {
                        let message = format_args!("cannot wait for the command: {error}");
                        Failure::new(NOT_EXECUTABLE, message)
                    })?;
                    // In its last moments.
                    for (name, how) in newly_lost(guards, &mut known, &context) {
                        tell(name, how, Command::HasEnded);
                    }
                    return Ok(Ended { status, lost: known.contains(&true) });
                }
                Err(_) => {
                    kill_at = None;
                    send(&child, Signal::KILL);
                }
            }
        }
    }

    /// Has the signals that are caught, and the end of the command, become events.
    fn watch(self, child: &Child) -> Result<(Receiver<Event>, Sender<Event>), Failure> {
        let (sender, events) = channel();
        let (from_signals, from_child) = (sender.clone(), sender.clone());
        let mut signals = self.signals;
        start("navlock-signals", move || {
            for origin in signals.forever() {
                if from_signals.send(Event::Signal(origin)).is_err() {
                    return;
                }
            }
        })?;
        let pid = Pid::from_child(child);
        start("navlock-child", move || {
            // Without reaping it: its number is its own until the one who sends it signals has
            // heard of its end, so that none goes to a stranger who was given it.
            let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), how), Err(Errno::INTR)) {}
            let _ = from_child.send(Event::Ended);
        })?;
        Ok((events, sender))
    }
}

/// The locks that are lost and were not known to be.
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

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map(drop).map_err(|error| {
        Failure::new(NOT_EXECUTABLE, format_args!("cannot watch the command: {error}"))
    })
}

fn receive(events: &Receiver<Event>, deadline: Option<Instant>) -> Result<Event, RecvTimeoutError> {
    match deadline {
        Some(deadline) => events.recv_timeout(deadline.saturating_duration_since(Instant::now())),
        None => events.recv().map_err(RecvTimeoutError::from),
    }
}

/// Passes a signal on, unless the command has it already, as far as that can be told.
fn forward(child: &Child, origin: &Origin) {
    if !(matches!(origin.cause, Cause::Kernel) && kernel_has_told(child, origin.signal)) {
        if let Some(signal) = signal(origin) {
            send(child, signal);
        }
    }
}

/// Whether the kernel, which has sent us this signal, has sent it to the command as well: the
/// terminal's ^C goes to the process group that is in front of it.
///
/// When somebody else sends a signal to the whole group, that looks as if it was for us alone.
fn kernel_has_told(child: &Child, signal: i32) -> bool {
    // A terminal that hangs up tells the leader of its session only.
    let is_for_leader = signal == SIGHUP && getsid(None) == Ok(getpid());
    !is_for_leader && getpgid(Some(Pid::from_child(child))) == Ok(getpgrp())
}

fn signal(origin: &Origin) -> Option<Signal> {
    Some(match origin.signal {
        SIGHUP => Signal::HUP,
        SIGINT => Signal::INT,
        SIGQUIT => Signal::QUIT,
        SIGTERM => Signal::TERM,
        _ => return None,
    })
}

fn send(child: &Child, signal: Signal) {
    // Not waited for yet, so the number is still its own. It may have ended on its own.
    let _ = kill_process(Pid::from_child(child), signal);
}

/// The signals that were ignored when we were started, signal `n` as bit `n - 1`.
fn ignored_signals() -> u64 {
    // Where there is no such file, none is taken to be.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Has the waiting thread look at the lock.
struct Notify(Sender<Event>);

impl Wake for Notify {
    fn wake(self: Arc<Self>) {
        // Nobody waits any more, if it fails.
        let _ = self.0.send(Event::Woken);
    }
}
