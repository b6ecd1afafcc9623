//! `navlock run`: a command under a lock.

use std::{
    io::ErrorKind,
    os::unix::process::ExitStatusExt,
    pin::pin,
    process::{Child, Command, ExitCode, ExitStatus},
    time::{Duration, Instant},
};

use navlock::BrokerReach;
use navlock::{
    LockGuard, LockManager, LockOptions, Mode, ResourceName, UserAgent, blocking::block_on_timeout,
};

use super::{connect, supervise::Supervisor};
use crate::{
    args::RunArgs,
    exit::{self, Failure},
};

/// The longest name that the command is told, in bytes: near 128 KiB for one variable, systems
/// refuse to run it.
const LONGEST_NAME: usize = 32 << 10;

/// How long we wait for a lock without a word.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let reach = connect(&args.scope.broker)?;
    let locks = UserAgent::with_reach(reach.clone()).lock_manager(&args.scope.bucket);
    let guard = acquire(&locks, args)?;
    // From here on signals are the command's.
    let supervisor = Supervisor::new()?;
    let child = spawn(&reach, args, &guard)?;
    let (status, lost) = supervisor.wait(child, &guard)?;
    // Told to the broker, and not left to the end of the connection: what the command has left
    // running in the background has inherited that.
    drop(guard);
    match lost {
        Some(lost) => Err(Failure::new(
            exit::LOST,
            format_args!("{lost}: {:?}; the command was told to end", args.name),
        )),
        None => Ok(code(status)),
    }
}

fn acquire(locks: &LockManager, args: &RunArgs) -> Result<LockGuard, Failure> {
    // Not to wait at all is not to give up before the broker could have answered.
    let at_once = args.timeout == Some(Duration::ZERO);
    let mode = if args.shared { Mode::Shared } else { Mode::Exclusive };
    let options = LockOptions {
        mode,
        if_available: args.nonblock || at_once && !args.steal,
        steal: args.steal,
        ..LockOptions::default()
    };
    let mut request = pin!(locks.lock_with(args.name.clone(), options).into_future());

    let waits = args.timeout.filter(|_| !at_once);
    let deadline = waits.and_then(|timeout| Instant::now().checked_add(timeout));
    let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let first = left().map_or(PATIENCE, |left| left.min(PATIENCE));
    let mut answer = block_on_timeout(request.as_mut(), first);
    if answer.is_none() && left().is_none_or(|left| !left.is_zero()) {
        exit::say(format_args!("waiting for {:?} ({})…", args.name, mode));
        answer = block_on_timeout(request.as_mut(), left().unwrap_or(Duration::MAX));
    }
    match answer {
        Some(Ok(Some(guard))) => Ok(guard),
        Some(Ok(None)) if args.nonblock => Err(Failure::conflict()),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(None)) | None => {
            Err(Failure::new(exit::CONFLICT, timed_out(&args.name, args.timeout)))
        }
    }
}

fn timed_out(name: &ResourceName, timeout: Option<Duration>) -> String {
    let seconds = timeout.unwrap_or_default().as_secs_f64();
    format!("{name:?} could not be had within {seconds} s; wait longer, or see `navlock query`")
}

/// Starts the command. It inherits the connection: if we are killed, it holds the lock alone, as a
/// child of flock(1) does, and whoever waits goes on waiting until it has ended.
fn spawn(reach: &BrokerReach, args: &RunArgs, guard: &LockGuard) -> Result<Child, Failure> {
    // The arguments' definition requires a command.
    let [program, arguments @ ..] = &*args.command else {
        return Err(Failure::new(exit::USAGE, "no command was given; add one after the name"));
    };
    let _lifeline = reach.lifeline().map_err(|error| {
        Failure::new(exit::NOT_EXECUTABLE, format_args!("no descriptor for the command: {error}"))
    })?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("NAVLOCK_MODE", guard.mode().as_str())
        .env("NAVLOCK_FENCE", guard.fencing_token().to_string());
    match args.name.as_str() {
        // The environment has no room for others; the command must do without.
        Some(name) if name.len() <= LONGEST_NAME && !name.contains('\0') => {
            command.env("NAVLOCK_NAME", name)
        }
        _ => command.env_remove("NAVLOCK_NAME"),
    };
    command.spawn().map_err(|error| {
        let code = match error.kind() {
            ErrorKind::NotFound => exit::NOT_FOUND,
            _ => exit::NOT_EXECUTABLE,
        };
        Failure::new(code, format_args!("cannot run {}: {error}", program.to_string_lossy()))
    })
}

/// The command's end as ours.
fn code(status: ExitStatus) -> ExitCode {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, Some(signal)) => u8::try_from(signal)
            .ok()
            .and_then(|signal| exit::SIGNALLED.checked_add(signal))
            .unwrap_or(u8::MAX),
        (None, None) => u8::MAX,
    };
    code.into()
}
