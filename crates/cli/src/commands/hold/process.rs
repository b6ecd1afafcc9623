//! The process whose end ends a hold. It is the process itself, and not only its id, which another process may have
//! by now.

use std::io::ErrorKind;

use navlock_platform::process::{Handle, Signal, TELLS_OTHERS, is_beyond_signals};

use crate::{
    args::OnLost,
    exit::{Failure, UNREACHABLE, USAGE},
};

/// The process that has this id now.
///
/// # Errors
///
/// If there is no such process, it has ended, or it cannot be watched.
pub(super) fn open(number: u32) -> Result<Handle, Failure> {
    let process = Handle::open(number).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::new(
            USAGE,
            format_args!(
                "there is no process {number} (--while-pid): it has ended, or that is its number in \
                 another container; nothing is held"
            ),
        ),
        ErrorKind::InvalidInput => {
            let said = "is a thread's number and no process's; nothing is held";
            Failure::new(USAGE, format_args!("{number} (--while-pid) {said}"))
        }
        _ => Failure::new(
            UNREACHABLE,
            format_args!(
                "process {number} (--while-pid) cannot be watched: {error}; it needs Linux 5.3 or \
                 newer; use --ttl instead"
            ),
        ),
    })?;
    // A process that has ended keeps its id until its parent has reaped it.
    if process.has_ended() { Err(ended(number)) } else { Ok(process) }
}

/// # Errors
///
/// If this user may not send signals to the process, or if the system has no signal that would
/// tell it to end.
pub(super) fn check_signal(number: u32, on_lost: OnLost) -> Result<(), Failure> {
    if on_lost == OnLost::Terminate && !TELLS_OTHERS {
        let said = "--on-lost term is not to be had on this system, where nobody can tell a process to \
                    end that it has not started; give --on-lost kill, or leave it out";
        return Err(Failure::new(USAGE, said));
    }
    if !is_beyond_signals(number) {
        return Ok(());
    }
    let said = "belongs to another user and cannot be told of a loss; leave out --on-lost";
    Err(Failure::new(USAGE, format_args!("process {number} {said}")))
}

/// Sends the signal that was asked for, if one was.
pub(super) fn tell_of_loss(process: &Handle, on_lost: OnLost) {
    match on_lost {
        OnLost::Terminate => process.signal(Signal::TERMINATE),
        OnLost::Kill => process.signal(Signal::KILL),
        OnLost::Ignore => {}
    }
}

/// The failure that says that the process has ended.
pub(super) fn ended(number: u32) -> Failure {
    Failure::new(USAGE, format_args!("process {number} (--while-pid) has ended; nothing is held"))
}
