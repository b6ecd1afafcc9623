//! Watching over a running command: its end, our signals, its lock.

use std::{
    fs,
    future::Future,
    io,
    pin::pin,
    process::{Child, ExitStatus},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock::{LockGuard, Lost};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM},
    iterator::{SignalsInfo, exfiltrator::WithOrigin},
    low_level::siginfo::{Cause, Origin},
};

use crate::exit::{Failure, NOT_EXECUTABLE};

/// How long a command that has lost its lock may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// Catches signals, from before there is a command until it has ended.
pub(super) struct Supervisor {
    events: Receiver<Event>,
    sender: Sender<Event>,
}

enum Event {
    Signal(Origin),
    /// The lock may be lost.
    Woken,
}

impl Supervisor {
    /// Catches what is to be forwarded from now on.
    pub(super) fn new() -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            Failure::new(NOT_EXECUTABLE, format_args!("cannot catch signals: {error}"))
        };
        let ignored = ignored_signals();
        // What is ignored, as `nohup` has it, stays so for the command as well, which would not
        // inherit it if it were caught.
        let caught = [SIGHUP, SIGINT, SIGQUIT, SIGTERM]
            .into_iter()
            .filter(|signal| ignored >> (signal - 1) & 1 == 0)
            .chain([SIGCHLD]);
        let mut signals = SignalsInfo::<WithOrigin>::new(caught).map_err(failed)?;
        let (sender, events) = channel();
        let from_signals = sender.clone();
        thread::Builder::new()
            .name("navlock-signals".to_owned())
            .spawn(move || {
                for origin in signals.forever() {
                    if from_signals.send(Event::Signal(origin)).is_err() {
                        return;
                    }
                }
            })
            .map_err(failed)?;
        Ok(Self { events, sender })
    }

    /// Waits until the command has ended, and ends it if its lock is lost.
    ///
    /// Only this thread waits for the child, so that no signal goes to a stranger who was given
    /// its number.
    pub(super) fn wait(
        self,
        mut child: Child,
        guard: &LockGuard,
    ) -> Result<(ExitStatus, Option<Lost>), Failure> {
        let waker = Waker::from(Arc::new(Notify(self.sender)));
        let mut context = Context::from_waker(&waker);
        let mut lost = None;
        let mut kill_at = None;
        loop {
            if lost.is_none() {
                if let std::task::Poll::Ready(how) = pin!(guard.lost()).poll(&mut context) {
                    lost = Some(how);
                    kill_at = Some(Instant::now() + GRACE);
                    send(&child, Signal::TERM);
                }
            }
            let ended = child.try_wait().map_err(|error| {
                Failure::new(NOT_EXECUTABLE, format_args!("cannot wait for the command: {error}"))
            })?;
            if let Some(status) = ended {
                return Ok((status, lost));
            }
            match receive(&self.events, kill_at) {
                Ok(Event::Signal(origin)) => forward(&child, &origin),
                Ok(Event::Woken) => {}
                Err(_) => {
                    kill_at = None;
                    send(&child, Signal::KILL);
                }
            }
        }
    }
}

fn receive(events: &Receiver<Event>, deadline: Option<Instant>) -> Result<Event, RecvTimeoutError> {
    match deadline {
        Some(deadline) => events.recv_timeout(deadline.saturating_duration_since(Instant::now())),
        None => events.recv().map_err(RecvTimeoutError::from),
    }
}

/// Passes a signal on, unless the command has it already: the terminal sends its own to all who
/// are in front of it.
fn forward(child: &Child, origin: &Origin) {
    let signal = match origin.signal {
        SIGHUP => Signal::HUP,
        SIGINT => Signal::INT,
        SIGQUIT => Signal::QUIT,
        SIGTERM => Signal::TERM,
        _ => return,
    };
    if !matches!(origin.cause, Cause::Kernel) {
        send(child, signal);
    }
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
