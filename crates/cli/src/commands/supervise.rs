//! Watching over a running command: its end, our signals, its lock.
//!
//! All that can fail is done before there is a command, and no thread is started for it: a command
//! that runs is never killed for want of something to watch it with.

use std::{
    fs,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, ExitStatus},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use navlock::{LockGuard, Lost, ResourceName};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{
        Pid, Signal, WaitId, WaitIdOptions, getpgid, getpgrp, getpid, getsid, kill_process, waitid,
    },
};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM},
    iterator::{backend::SignalDelivery, exfiltrator::WithOrigin},
    low_level::siginfo::{Cause, Origin},
};

use crate::{
    args::OnLost,
    exit::{Failure, NOT_EXECUTABLE},
};

/// How long a command that has lost its lock may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// How often it is looked whether the command has ended, where only a signal says so: that may be
/// blocked.
const LOOK: Duration = Duration::from_millis(200);

/// What the command does while something is told of its locks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Runs,
    HasEnded,
}

/// Catches signals, from before there is a command until it has ended.
pub(super) struct Supervisor {
    signals: SignalDelivery<UnixStream, WithOrigin>,
    /// A byte in here has us look at the locks. It comes where the signals come.
    bell: Arc<Bell>,
}

/// What became of the command.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// Whether a lock was lost before that.
    pub(super) lost: bool,
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
        let catch = || -> io::Result<Self> {
            let (read, write) = UnixStream::pair()?;
            write.set_nonblocking(true)?;
            let bell = Arc::new(Bell(write.try_clone()?));
            let signals = SignalDelivery::with_pipe(read, write, WithOrigin::default(), caught)?;
            Ok(Self { signals, bell })
        };
        catch().map_err(|error| {
            Failure::new(NOT_EXECUTABLE, format_args!("cannot catch signals: {error}"))
        })
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
        let end = ChildEnd::of(&child);
        let waker = Waker::from(Arc::clone(&self.bell));
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
            let has_ended = end.wait(&child, self.signals.get_read(), kill_at);
            for origin in self.signals.pending() {
                forward(&child, &origin);
            }
            if has_ended {
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
            if kill_at.is_some_and(|at| at <= Instant::now()) {
                kill_at = None;
                send(&child, Signal::KILL);
            }
        }
    }
}

/// How the end of a command is noticed. It is not reaped by that: its number is its own until the
/// one who sends it signals has heard of its end, so that none goes to a stranger who was given it.
struct ChildEnd {
    /// Readable when it has ended. `None` where the system has no such thing, or none left.
    process: Option<OwnedFd>,
}

impl ChildEnd {
    fn of(child: &Child) -> Self {
        #[cfg(target_os = "linux")]
        let process = {
            use rustix::process::{PidfdFlags, pidfd_open};
            pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()
        };
        #[cfg(not(target_os = "linux"))]
        let process = None;
        Self { process }
    }

    /// Waits until the command has ended, something can be read here, or it is so late. Whether it
    /// has ended.
    fn wait(&self, child: &Child, read: &UnixStream, deadline: Option<Instant>) -> bool {
        let look = self.process.is_none().then_some(LOOK);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = look.into_iter().chain(left).min();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let process = self.process.as_ref().map_or(read.as_fd(), AsFd::as_fd);
        let mut polled =
            [PollFd::new(read, PollFlags::IN), PollFd::from_borrowed_fd(process, PollFlags::IN)];
        // What it fails with is that a signal has come, which is in there to be read.
        let _ = poll(&mut polled, timeout.as_ref());
        if self.process.is_some() {
            return !polled[1].revents().is_empty();
        }
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        matches!(waitid(WaitId::Pid(Pid::from_child(child)), how), Ok(Some(_)))
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

/// Has whoever waits look at the locks.
struct Bell(UnixStream);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // If it is full there is something in it.
        let _ = (&self.0).write(&[0]);
    }
}
