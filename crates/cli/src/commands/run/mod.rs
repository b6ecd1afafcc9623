//! `navlock run`: a command under a lock.

mod args;
mod leased;
mod replace;
mod supervise;
mod variables;
mod work;

use std::{
    collections::HashSet,
    io::{self, ErrorKind},
    iter, mem,
    path::Path,
    process::{self, Child, Command, ExitCode, ExitStatus},
    task::{self, Waker},
    time::Instant,
};

use navlock::{
    Lifeline, LockGuard, LockManager, Lost, Mode, PreparedLifeline, ResourceName,
    blocking::block_on, host::clip_chars,
};
use navlock_broker::{LONGEST_COMMAND, this_client};
use navlock_platform::{
    process::{ended_by, execute},
    shell,
    shortage::{self, Shortage},
    signal,
};

pub(crate) use self::args::RunArgs;
use self::{
    leased::{grace, refuse_where_leased},
    replace::replace,
    supervise::{Ended, GRACE, Policy, Supervisor},
    work::Work,
};
use super::{
    Context,
    acquire::{Request, lost},
    inside::around,
    outage::watch_for_outages,
};
use crate::{
    args::{OnLost, Take},
    exit::{self, Failure},
    text::{clipped, printable, quoted_name},
    time::taken,
};

/// Acquires the locks, runs the command, and ends as the command does.
///
/// There are four states, in this order: the lifeline is prepared, the locks are held, the lifeline
/// holds the locks as well, the command runs. A failure in one state undoes the states before it.
pub(super) fn run(context: &Context, mut args: RunArgs) -> Result<ExitCode, Failure> {
    let (names, work) = args.names_and_work()?;
    args.request.check_names(&names)?;
    let request = Request::new(context, &args.request)?;
    let Request { reach, locks, .. } = &request;
    let mut info = this_client();
    info.keeper = info.pid;
    args.request.describe(&mut info)?;
    let command_line = shown_line(&work, args.show_args);
    info.command = format!("navlock run {command_line}");
    locks.describe(&info);
    let names = if args.reentrant { not_held(locks, names, &args)? } else { names };
    // This comes before any wait, so that no lock is requested that the command could not keep.
    let lifeline =
        if args.close || names.is_empty() { None } else { Some(reach.prepare_lifeline(&names)) };
    let lifeline = lifeline.transpose().map_err(|error| no_room(context, &error))?;
    if args.no_fork || args.replace {
        refuse_where_leased(reach, &args)?;
    }
    let grace_given = args.grace.unwrap_or(GRACE);
    let replacing = args.replace.then(|| replace(locks, &names, grace_given)).transpose()?;
    let take = match (args.any, args.steal) {
        (true, _) => Take::Any,
        (false, true) => Take::Stolen,
        (false, false) => Take::All,
    };
    let guards = request.acquire(&names, take)?;
    drop(replacing);
    let names = if args.any { guards.iter().map(|it| it.name().clone()).collect() } else { names };
    // From here on, any process that is started holds the locks as well.
    let lifeline = lifeline.map(PreparedLifeline::begin);
    let lifeline = lifeline.transpose().map_err(|error| no_room(context, &error))?;
    if args.no_fork {
        info.command = command_line;
        locks.describe(&info);
        return Err(become_command(lifeline, context, &names, &work, &guards));
    }
    let policy = Policy { on_lost: args.on_lost, grace: grace(&args, &guards)? };
    // From here on, signals are forwarded to the command.
    let mut supervisor = Supervisor::new()?;
    // This process may have been stopped since the grant.
    reach.read_pending();
    if args.on_lost != OnLost::Ignore {
        refuse_lost(&guards)?;
    }
    let (child, mut lifeline) = spawn(lifeline, context, &names, &work, &guards, |child| {
        supervisor.begins(child);
        info.pid = child.id();
        info.command = command_line;
        locks.describe(&info);
    })?;
    let started = Instant::now();
    context.verbosity.detail(format_args!("running {} (process {})", shown(&work), child.id()));
    let outage = watch_for_outages(context, locks, &names);
    let ended = supervisor.wait(child, &guards, reach, policy, |name, lost, command| {
        // Processes that the command leaves running must not hold locks that others have now.
        if guards.iter().all(LockGuard::is_lost) {
            lifeline = None;
        } else if let Some(lifeline) = &lifeline {
            lifeline.renew();
        }
        tell_of_loss(name, lost, command, args.on_lost);
    })?;
    drop(outage);
    let Ended { status, lost, was_told } = ended;
    if was_told {
        // A process that cannot be seen may still have the lifeline, and works under the locks. So the broker
        // takes over, as if this process had been killed: the locks are held as long as the lifeline is open.
        if lifeline.as_ref().is_some_and(Lifeline::is_inherited) {
            let stays = if names.len() == 1 { "stays" } else { "stay" };
            let names = names.iter().map(quoted_name).collect::<Vec<_>>().join(", ");
            exit::mention(format_args!(
                "{names} {stays} held while something works that the command has started and that cannot \
                 be seen from here, as a program of another user; root can see it"
            ));
        }
        mem::forget((lifeline, guards));
    } else {
        // Processes that the command has left running in the background hold nothing.
        drop(lifeline);
        drop(guards);
    }
    // FAST: everything else ends with this process, which ends now. The broker removes the
    // process's file.
    mem::forget(request);
    context.verbosity.detail(format_args!(
        "{} ended after {}: {status}",
        shown(&work),
        taken(started.elapsed())
    ));
    if lost && args.on_lost != OnLost::Ignore {
        return Err(Failure::silent(exit::LOST));
    }
    Ok(code(status))
}

/// Those of the names that are not held around this process in a mode that is enough.
fn not_held(
    locks: &LockManager,
    mut names: Vec<ResourceName>,
    args: &RunArgs,
) -> Result<Vec<ResourceName>, Failure> {
    let mut held = HashSet::new();
    for name in &names {
        let is_shared = args.request.mode_of(name) == Mode::Shared;
        let around = block_on(around(locks, name))?;
        if around.iter().any(|one| is_shared || one.lock.mode == Mode::Exclusive) {
            held.insert(name.clone());
        }
    }
    names.retain(|name| !held.contains(name));
    Ok(names)
}

/// Refuses to start the command if a lock is lost already.
///
/// # Errors
///
/// If one of the locks is lost.
fn refuse_lost(guards: &[LockGuard]) -> Result<(), Failure> {
    // FAST: to ask how a lock is lost, or to be told later, takes a thread.
    if !guards.iter().any(LockGuard::is_lost) {
        return Ok(());
    }
    let Some((name, how)) = lost(guards, &task::Context::from_waker(Waker::noop())) else {
        return Ok(());
    };
    let name = quoted_name(&name);
    Err(Failure::new(exit::LOST, format_args!("{name}: {how}; the command was not started")))
}

/// Tells people that a lock was lost, and what happens to the command.
fn tell_of_loss(name: &ResourceName, lost: Lost, command: supervise::Command, on_lost: OnLost) {
    let becomes = match (command, on_lost) {
        (supervise::Command::HasEnded, _) => "the command has ended",
        (supervise::Command::Runs, OnLost::Terminate) => "the command is told to end",
        (supervise::Command::Runs, OnLost::Kill) => "the command is killed",
        (supervise::Command::Runs, OnLost::Ignore) => "the command goes on",
    };
    exit::mention(format_args!("{}: {lost}; {becomes}", quoted_name(name)));
}

/// Starts the command, which inherits the lifeline. If this process is killed, the command alone
/// holds the locks, like a child of flock(1), and waiters wait until the command has ended.
fn spawn(
    mut lifeline: Option<Lifeline>,
    context: &Context,
    names: &[ResourceName],
    work: &Work,
    guards: &[LockGuard],
    describe: impl FnOnce(&Child),
) -> Result<(Child, Option<Lifeline>), Failure> {
    let mut command = prepared(context, names, work, guards);
    let spawned = command.spawn().or_else(|error| {
        let script = work.as_script(&error).ok_or(error)?;
        command = prepared(context, names, &script, guards);
        command.spawn()
    });
    // This comes before the lifeline is handed over, because after that the locks belong to the
    // process that is described.
    if let Ok(child) = &spawned {
        describe(child);
    }
    if let Some(lifeline) = &mut lifeline {
        lifeline.hand_over();
    }
    let child = spawned.map_err(|error| not_run(&command, &error))?;
    Ok((child, lifeline))
}

/// Turns this process into the command, which inherits the lifeline like a command that is started.
/// Returns only if that fails.
fn become_command(
    lifeline: Option<Lifeline>,
    context: &Context,
    names: &[ResourceName],
    work: &Work,
    guards: &[LockGuard],
) -> Failure {
    let mut command = prepared(context, names, work, guards);
    let mut error = execute(&mut command);
    if let Some(script) = work.as_script(&error) {
        error = execute(&mut prepared(context, names, &script, guards));
    }
    // The lifeline is not handed over, because this process itself inherits it. With its
    // connection, the process loses everything else by which the broker knows it.
    drop(lifeline);
    not_run(&command, &error)
}

/// The failure for a command that could not be run.
fn not_run(command: &Command, error: &io::Error) -> Failure {
    let code = match error.kind() {
        ErrorKind::NotFound => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    };
    let program = command.get_program().to_string_lossy();
    Failure::new(code, format_args!("cannot run {}: {error}", printable(&program)))
}

/// The command, with the variables that tell it of its locks.
fn prepared(
    context: &Context,
    names: &[ResourceName],
    work: &Work,
    guards: &[LockGuard],
) -> Command {
    let mut command = match work {
        Work::Program(program, arguments) => {
            let mut command = shell::command_of(program);
            command.args(arguments);
            command
        }
        Work::Shell(text) => shell::command(text),
    };
    signal::hand_on(&mut command);
    variables::set(&mut command, names, guards);
    variables::set_place(&mut command, &context.bucket, &context.place);
    command
}

/// The failure for a command that could not hold its locks by itself, although users rely on that.
fn no_room(context: &Context, error: &io::Error) -> Failure {
    let directory = context.place.socket().parent().unwrap_or(Path::new(".")).display();
    let remedy = match shortage::of(error) {
        Some(Shortage::OpenFiles) => "raise the limit of open files (ulimit -n)",
        Some(Shortage::OpenFilesOfAll) => {
            "end something, for the whole system has too many open files"
        }
        Some(Shortage::Room) => "make room there",
        None => "remove the cause",
    };
    Failure::new(
        exit::UNREACHABLE,
        format_args!(
            "the command was not started: what it is to hold, should navlock be killed, cannot be \
             kept in a file in {directory}: {error}; {remedy}, or do without by --close"
        ),
    )
}

/// The command line that others may see. It has no arguments, which may be secret, unless the user
/// has asked to show them.
fn shown_line(work: &Work, with_arguments: bool) -> String {
    let line = match work {
        Work::Program(program, arguments) => {
            let arguments = arguments.iter().filter(|_| with_arguments).take(LONGEST_COMMAND);
            let words = iter::once(program).chain(arguments).map(|word| word.to_string_lossy());
            words.collect::<Vec<_>>().join(" ")
        }
        Work::Shell(text) if with_arguments => text.to_string_lossy().into_owned(),
        Work::Shell(_) => shell::program().to_string_lossy().into_owned(),
    };
    clip_chars(&line, LONGEST_COMMAND).to_owned()
}

fn shown(work: &Work) -> String {
    clipped(&printable(&shown_line(work, true)), 60)
}

/// The exit code for the command's end.
fn code(status: ExitStatus) -> ExitCode {
    let code = match (status.code(), ended_by(status)) {
        (Some(code), _) => match u8::try_from(code) {
            Ok(code) => code,
            // On systems where the command's code may be larger than a byte, the code of this
            // process may be as well. Nothing is held any more, and nothing is left to write.
            Err(_) => process::exit(code),
        },
        (None, Some(signal)) => u8::try_from(signal)
            .ok()
            .and_then(|signal| exit::SIGNALLED.checked_add(signal))
            .unwrap_or(u8::MAX),
        (None, None) => u8::MAX,
    };
    code.into()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn a_long_command_is_told_by_its_beginning() {
        let arguments = vec![OsString::from("é".repeat(150)); 1000];
        let line = shown_line(&Work::Program("x".into(), arguments), true);
        assert_eq!(line.chars().count(), LONGEST_COMMAND);
    }
}
