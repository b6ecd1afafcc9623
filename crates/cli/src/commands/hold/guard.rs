//! The process that tells the process of `--while-pid` when the keeper is killed, which cannot tell anybody
//! then.

use std::{
    io::{self, Read, Write},
    process::ExitCode,
};

use navlock_platform::{
    descriptor,
    socket::{Stream, of_output},
};

use super::{
    args::HoldArgs,
    process::{open, tell_of_loss},
    role::Role,
};
use crate::exit::{Failure, UNREACHABLE};

/// The keeper's connection to its guard. If the keeper ends after it has [said](Self::say)
/// something once, and not twice, the guard sends the signal of `--on-lost`.
pub(super) struct Guard(Stream);

impl Guard {
    /// Starts a guard, and returns when it watches.
    pub(super) fn start() -> io::Result<Self> {
        let guard = Role::Guard.start()?;
        (&guard).read_exact(&mut [0])?;
        Ok(Self(guard))
    }

    /// Said first that the locks are held, and then that nobody is to be told any more.
    pub(super) fn say(&self) {
        // A guard that was killed itself needs to know nothing.
        let _ = (&self.0).write_all(b"\n");
    }
}

/// Waits until the keeper ends.
pub(super) fn guard(args: &HoldArgs) -> Result<ExitCode, Failure> {
    let failed =
        |error| Failure::new(UNREACHABLE, format_args!("cannot watch the keeper: {error}"));
    let mut keeper = of_output().map_err(failed)?;
    let process = args.while_pid.map(open).transpose()?;
    descriptor::leave(&[descriptor::Stream::Error])
        .and_then(|()| keeper.write_all(b"\n"))
        .map_err(failed)?;
    let mut said = Vec::new();
    let _ = keeper.read_to_end(&mut said);
    if let Some(process) = process.filter(|_| said.len() == 1) {
        tell_of_loss(&process, args.on_lost);
    }
    Ok(ExitCode::SUCCESS)
}
