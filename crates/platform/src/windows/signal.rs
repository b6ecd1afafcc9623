//! What a console tells the programs in front of it: ^C, ^Break, and that it is closed.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    io::{self, Read, Write},
    process::{Child, Command},
    sync::{Mutex, OnceLock, PoisonError},
    thread,
};

use windows_sys::{
    Win32::System::Console::{
        CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
        SetConsoleCtrlHandler,
    },
    core::BOOL,
};

use super::system::checked;
use crate::{
    process::Signal,
    socket::Stream,
    wait::{BorrowedSource, Source},
};

/// Where the signals that come are written to, a byte each.
#[derive(Debug)]
struct Caught {
    signals: Vec<Signal>,
    ends: Stream,
    /// Whether the second one ends us, whatever we are at.
    once: bool,
    has_come: bool,
}

fn all() -> &'static Mutex<Vec<Caught>> {
    static ALL: OnceLock<Mutex<Vec<Caught>>> = OnceLock::new();
    ALL.get_or_init(Mutex::default)
}

/// The signal that is on Unix what this event of the console is here.
fn signal_of(event: u32) -> Option<Signal> {
    match event {
        CTRL_C_EVENT => Some(Signal::INTERRUPT),
        CTRL_BREAK_EVENT => Some(Signal::QUIT),
        CTRL_CLOSE_EVENT | CTRL_LOGOFF_EVENT => Some(Signal::HANG_UP),
        CTRL_SHUTDOWN_EVENT => Some(Signal::TERMINATE),
        _ => None,
    }
}

unsafe extern "system" fn came(event: u32) -> BOOL {
    let Some(signal) = signal_of(event) else { return 0 };
    // Not a signal's handler: it is called in a thread of its own, which may wait.
    let mut is_caught = false;
    let mut all = all().lock().unwrap_or_else(PoisonError::into_inner);
    for caught in all.iter_mut().filter(|caught| caught.signals.contains(&signal)) {
        if caught.once && caught.has_come {
            return 0;
        }
        caught.has_come = true;
        let number = u8::try_from(signal.number()).unwrap_or_default();
        // A stream that is full does as well: its reader has something to read.
        let _ = (&caught.ends).write(&[number]);
        is_caught = true;
    }
    drop(all);
    let ends_us = [Signal::HANG_UP, Signal::TERMINATE].contains(&signal);
    if is_caught && ends_us {
        // The process is ended when this returns: what is to be done before is given the time that
        // the system gives.
        loop {
            thread::park();
        }
    }
    i32::from(is_caught)
}

/// A stream that becomes readable when one of these signals comes, and the end that is written to.
fn catch(signals: &[Signal], once: bool) -> io::Result<(Stream, Stream)> {
    let (told, ends) = Stream::pair()?;
    ends.set_nonblocking(true)?;
    let caught =
        Caught { signals: signals.to_vec(), ends: ends.try_clone()?, once, has_come: false };
    let mut all = all().lock().unwrap_or_else(PoisonError::into_inner);
    if all.is_empty() {
        // SAFETY: The function is there for as long as the program.
        checked(unsafe { SetConsoleCtrlHandler(Some(came), 1) })?;
    }
    all.push(caught);
    Ok((told, ends))
}

/// Nothing here: Windows has no limit for the size of files.
pub fn outlive_file_limit() {}

/// Whether this signal is ignored now: that cannot be asked here.
pub fn is_ignored(_: Signal) -> bool {
    false
}

/// Has the command lead a group of its own, as only a group can be told something by ^Break. What
/// the console tells is passed on to it; the console's own ^C it does not hear.
pub fn hand_on(command: &mut Command) {
    crate::process::set_apart(command);
}

/// A signal that has asked this process to end.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Which signal.
    pub signal: Signal,
    /// Whether others have got it as well: never here.
    pub to_group: bool,
}

/// Catches the signals that are to be passed on to a command, from before the command is started.
#[derive(Debug)]
pub struct PassedOn {
    told: Stream,
}

impl PassedOn {
    /// Catches these signals from now on. It also returns an end that does not block: a write to
    /// this end wakes whoever waits for the source.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub fn catch() -> io::Result<(Self, Stream)> {
        let signals = [Signal::HANG_UP, Signal::INTERRUPT, Signal::QUIT, Signal::TERMINATE];
        let (told, wake_end) = catch(&signals, false)?;
        told.set_nonblocking(true)?;
        Ok((Self { told }, wake_end))
    }

    /// Readable when a signal has come, or something was written to the other end.
    pub fn source(&self) -> BorrowedSource<'_> {
        self.told.source()
    }

    /// Tells the command by ^Break what came before it was started. Returns what came.
    pub fn pass_on_early(&mut self, child: &Child) -> Vec<Told> {
        let come = self.take();
        come.iter().for_each(|told| crate::process::signal_child(child, told.signal));
        come
    }

    /// Tells the command by ^Break what has come, apart from what the console tells all programs in
    /// front of it: its own end, and that of the user's session. Returns what came.
    pub fn pass_on(&mut self, child: Option<&Child>) -> Vec<Told> {
        let come = self.take();
        let is_ours = |told: &&Told| [Signal::INTERRUPT, Signal::QUIT].contains(&told.signal);
        for (told, child) in come.iter().filter(is_ours).zip(child.into_iter().cycle()) {
            crate::process::signal_child(child, told.signal);
        }
        come
    }

    fn take(&self) -> Vec<Told> {
        let mut bytes = [0; 64];
        let read = (&self.told).read(&mut bytes).unwrap_or(0);
        let known = [Signal::HANG_UP, Signal::INTERRUPT, Signal::QUIT, Signal::TERMINATE];
        let of = |byte: &u8| known.into_iter().find(|signal| signal.number() == i32::from(*byte));
        let told = |signal| Told { signal, to_group: false };
        bytes[..read].iter().filter_map(of).map(told).collect()
    }
}

/// A stream that becomes readable when we are told to end. The next time, that ends us whatever we
/// are at.
///
/// # Errors
///
/// If there is no memory for it.
pub fn told_to_end() -> io::Result<Stream> {
    let signals = [Signal::INTERRUPT, Signal::QUIT, Signal::HANG_UP, Signal::TERMINATE];
    catch(&signals, true).map(|(told, _)| told)
}

/// Does this when we are told to end, and then ends.
///
/// # Errors
///
/// If it cannot be caught, or there is no thread to be had.
pub fn before_end(act: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut told = told_to_end()?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut byte = [0];
        if told.read(&mut byte).is_ok_and(|read| read > 0) {
            act();
            std::process::exit(128 + i32::from(byte[0]));
        }
    })?;
    Ok(())
}

/// Ends this process as Windows ends one that nobody has told what to do.
pub fn end_by(signal: Signal) {
    std::process::exit(signal.exit_code().cast_signed());
}

/// Nothing here: Windows does not stop a process until somebody has it go on.
pub fn suspend() {}

/// Signals that are heeded, each with a pipe in which there is a byte when it has come.
#[derive(Debug)]
pub struct CaughtSignals(Vec<(Signal, Stream)>);

impl CaughtSignals {
    /// Catches these from now on, as far as there are such here.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub fn catch(signals: &[Signal]) -> io::Result<Self> {
        let pipes = signals.iter().map(|&signal| {
            let (ours, _) = catch(&[signal], false)?;
            ours.set_nonblocking(true)?;
            Ok((signal, ours))
        });
        pipes.collect::<io::Result<_>>().map(Self)
    }

    /// All, each readable when it has come.
    pub fn sources(&self) -> impl Iterator<Item = (Signal, BorrowedSource<'_>)> {
        self.0.iter().map(|(signal, pipe)| (*signal, pipe.source()))
    }

    /// The one at this place of the [`sources`](Self::sources) has been seen.
    pub fn take(&self, index: usize) -> Signal {
        let (signal, mut pipe) = (self.0[index].0, &self.0[index].1);
        let mut bytes = [0; 256];
        while pipe.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
        signal
    }
}
