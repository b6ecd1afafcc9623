//! Signals: catching them, passing them on to a command, and resetting them for it.

mod dispositions;
mod handler;

use std::{
    io::{self, Read},
    process::Child,
    sync::{Arc, atomic::AtomicBool},
    thread,
};

use nix::{
    libc,
    unistd::{Pid, getpgid, getpgrp, getpid, getsid},
};
use rustix::process::kill_current_process_group;
use signal_hook::{
    consts::{
        SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGURG,
        SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH,
    },
    flag,
    iterator::Signals,
    low_level::{emulate_default_handler, pipe},
};

pub use self::dispositions::hand_on;
use crate::{
    process::{Signal, signal_child},
    socket::Stream,
    wait::{BorrowedSource, Source},
};

/// From now on, a file that grows beyond its limit (`ulimit -f`) is an error, and not the end of this process.
pub fn outlive_file_limit() {
    // A handler, and not to ignore the signal, because the programs that are started would ignore it too.
    if !dispositions::is_ignored(libc::SIGXFSZ) {
        let _ = flag::register(libc::SIGXFSZ, Arc::default());
    }
}

/// Whether this signal is ignored now.
pub fn is_ignored(signal: Signal) -> bool {
    dispositions::is_ignored(signal.number())
}

/// The signals that ask a process to end.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// The other signals that are passed on. Left out are those that stop a process, and those that tell a process
/// of its own faults and limits.
const OTHERS: [i32; 9] =
    [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGWINCH, SIGCONT, SIGURG, SIGIO];

/// All signals that are passed on.
fn passed_on() -> impl Iterator<Item = i32> {
    #[cfg(target_os = "linux")]
    let more = std::iter::once(libc::SIGPWR).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    #[cfg(not(target_os = "linux"))]
    let more = std::iter::empty();
    ENDING.into_iter().chain(OTHERS).chain(more)
}

/// A signal that has asked this process to end.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Which signal.
    pub signal: Signal,
    /// Whether the kernel has sent it to our whole process group, as the terminal's ^C.
    pub to_group: bool,
}

/// Catches the signals that are to be passed on to a command, from before the command is started.
#[derive(Debug)]
pub struct PassedOn {
    come: Stream,
    /// Into this, the handler writes the signals that come.
    _noted: Stream,
}

impl PassedOn {
    /// Catches these signals from now on. It also returns an end that does not block: a zero that is written to this
    /// end wakes whoever waits for the source.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn catch() -> io::Result<(Self, Stream)> {
        let (come, noted) = Stream::pair()?;
        come.set_nonblocking(true)?;
        noted.set_nonblocking(true)?;
        let wake_end = noted.try_clone()?;
        handler::write_into(Some(&noted));
        // A signal that is ignored, as `nohup` has it, stays ignored for the command as well. If it were
        // caught, the command would not inherit that.
        passed_on().filter(|&signal| !dispositions::is_ignored(signal)).for_each(handler::catch);
        // CHLD is caught too, but not to hear of a child's end, since CHLD may be blocked. It is caught
        // because it may be ignored: then a child's status is gone with the child.
        handler::catch(SIGCHLD);
        Ok((Self { come, _noted: noted }, wake_end))
    }

    /// Readable when a signal has come, or something was written to the other end.
    pub fn source(&self) -> BorrowedSource<'_> {
        self.come.source()
    }

    /// Passes on to the command all signals that came before the command was there, also by the terminal's
    /// ^C. Returns those that ask for an end.
    ///
    /// Nothing tells when a signal has come. So one that comes between the command's first instruction and this is
    /// passed on as well, and the command gets it twice: it is not lost.
    pub fn pass_on_early(&mut self, child: &Child) -> Vec<Told> {
        self.pass_to(Some(child), |_, _| false)
    }

    /// Passes on the signals that have come to the command, if there is one, unless the command has got them
    /// already, as far as that can be told. On Apple's systems it cannot: there the process behind the terminal
    /// counts as the sender of the terminal's ^C, and the command gets it twice. Returns those that ask for an
    /// end.
    pub fn pass_on(&mut self, child: Option<&Child>) -> Vec<Told> {
        let has_it = |told: Told, child: &Child| {
            // Such a number is 0 where it belongs to a process of another namespace, as in a container that
            // was entered.
            let group = |pid| getpgid(Some(Pid::from_raw(pid))).ok();
            told.to_group && i32::try_from(child.id()).ok().and_then(group) == Some(getpgrp())
        };
        self.pass_to(child, has_it)
    }

    fn pass_to(&mut self, child: Option<&Child>, has_it: fn(Told, &Child) -> bool) -> Vec<Told> {
        let mut bytes = [0; 1024];
        let length = (&self.come).read(&mut bytes).unwrap_or_default();
        let come = bytes[..length].iter().filter_map(|byte| handler::noted(*byte));
        let come = come.filter(|(signal, _)| *signal != SIGCHLD).map(|(signal, by_kernel)| {
            let told =
                Told { signal: Signal::of_number(signal), to_group: to_group(signal, by_kernel) };
            if let Some(child) = child.filter(|child| !has_it(told, child)) {
                signal_child(child, told.signal);
            }
            told
        });
        come.filter(|told| ENDING.contains(&told.signal.number())).collect()
    }
}

/// Whether the kernel has sent the signal to our process group: the terminal's ^C goes to the terminal's
/// foreground process group.
///
/// If somebody else sends a signal to the whole group, it looks as if it was for us alone.
fn to_group(signal: i32, by_kernel: bool) -> bool {
    // A terminal that hangs up tells the leader of its session only.
    let is_for_leader = signal == SIGHUP && getsid(None) == Ok(getpid());
    by_kernel && !is_for_leader
}

impl Drop for PassedOn {
    fn drop(&mut self) {
        handler::write_into(None);
    }
}

/// A stream that becomes readable when a signal tells us to end. The next signal of its kind ends us whatever
/// we are at.
///
/// # Errors
///
/// If there are no descriptors left.
pub fn told_to_end() -> io::Result<Stream> {
    let (told, ends) = Stream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        let is_told = Arc::new(AtomicBool::new(false));
        // The order matters: the first one finds that no signal has come before.
        flag::register_conditional_default(signal, Arc::clone(&is_told))?;
        flag::register(signal, is_told)?;
        pipe::register(signal, ends.try_clone()?)?;
    }
    Ok(told)
}

/// Does this when a signal tells us to end, and then ends as the signal says.
///
/// # Errors
///
/// If the signals cannot be caught, or there is no thread to be had.
pub fn before_end(act: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            act();
            end_by(Signal::of_number(signal));
        }
    })?;
    Ok(())
}

/// Ends this process as a signal does that is not caught; returns if the signal would not end it.
pub fn end_by(signal: Signal) {
    let _ = emulate_default_handler(signal.number());
}

/// Stops our process group, as the terminal's ^Z does, until somebody has it go on. Where there is no shell
/// to come back to, the kernel does nothing.
pub fn suspend() {
    if let Some(signal) = Signal::SUSPEND.raw() {
        let _ = kill_current_process_group(signal);
    }
}

/// Signals that are heeded, each with a pipe in which there is a byte when it has come.
#[derive(Debug)]
pub struct CaughtSignals(Vec<(Signal, Stream)>);

impl CaughtSignals {
    /// Catches these signals from now on, but not those that were ignored when we were started.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn catch(all: &[Signal]) -> io::Result<Self> {
        let heeded = all.iter().filter(|signal| !is_ignored(**signal));
        let pipes = heeded.map(|&signal| {
            let (ours, theirs) = Stream::pair()?;
            ours.set_nonblocking(true)?;
            pipe::register(signal.number(), theirs)?;
            Ok((signal, ours))
        });
        pipes.collect::<io::Result<_>>().map(Self)
    }

    /// All signals, each with a source that is readable when the signal has come.
    pub fn sources(&self) -> impl Iterator<Item = (Signal, BorrowedSource<'_>)> {
        self.0.iter().map(|(signal, pipe)| (*signal, pipe.source()))
    }

    /// Takes the signal at this place of the [`sources`](Self::sources), which has been seen.
    pub fn take(&self, index: usize) -> Signal {
        let (signal, pipe) = &self.0[index];
        let mut bytes = [0; 256];
        let mut pipe = pipe;
        while pipe.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
        *signal
    }
}
