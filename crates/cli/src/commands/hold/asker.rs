//! The process that the user has started, until the locks are granted.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    process::{self, ExitCode},
};

use navlock_platform::{
    inheritance::has_output,
    process::Handle,
    socket::Stream,
    surroundings::peculiarities,
    wait::{Interest, Source, wait_many},
};

use super::{
    args::HoldArgs,
    keeper::END_OF_TEXT,
    process::{check_signal, ended, open},
    role::Role,
};
use crate::{
    args::OnLost,
    exit::{Failure, UNREACHABLE, USAGE},
    terminal::write_out,
};

pub(super) fn ask(args: &HoldArgs) -> Result<ExitCode, Failure> {
    if !has_output() {
        let message = "the id cannot be written, because stdout is closed or only open for reading; nothing is \
                       held; if nobody needs the id, redirect the output to /dev/null";
        return Err(Failure::new(1, message));
    }
    let process = args.while_pid.map(open).transpose()?;
    if let Some(process) = &process {
        if process.number() == process::id() {
            let message = "--while-pid names this 'navlock hold' itself, which ends when it has the \
                           lock; give the number of the script, and do not start it with exec";
            return Err(Failure::new(USAGE, message));
        }
        if args.on_lost != OnLost::Ignore {
            check_signal(process.number(), args.on_lost)?;
        }
    }
    // The keeper has this process's stderr until it has the locks.
    let mut keeper = Role::Keeper.start().map_err(|error| {
        let what = "the process that is to keep the lock cannot be started";
        let why = peculiarities().into_iter().map(|(_, why)| why);
        let all = ["nothing is held".to_owned()].into_iter().chain(why).collect::<Vec<_>>();
        Failure::new(UNREACHABLE, format_args!("{what}: {error}; {}", all.join("; ")))
    })?;
    wait(&keeper, process.as_ref())?;
    let text = receive_text(&mut keeper)?;
    // The keeper has looked the process up by its id. The id belonged to this process as long as
    // the process had not ended.
    if let Some(process) = process.filter(Handle::has_ended) {
        return Err(ended(process.number()));
    }
    write_out(&text).map_err(|error| {
        Failure::new(1, format_args!("cannot write the id: {error}; nothing is held"))
    })?;
    // The keeper goes on by itself once it has said that it is ready to.
    keeper.write_all(b"\n").and_then(|()| keeper.read_exact(&mut [0])).map_err(|_| gone())?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until the keeper has something to say.
fn wait(keeper: &Stream, process: Option<&Handle>) -> Result<(), Failure> {
    loop {
        let asked = [Some(keeper.source()), process.map(Source::source)].into_iter().flatten();
        let asked: Vec<_> = asked.map(|source| (source, Interest::READ)).collect();
        let came = match wait_many(&asked, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(Failure::new(UNREACHABLE, format_args!("cannot wait: {error}")));
            }
            Ok(came) => came,
        };
        if let Some(process) = process.filter(|_| came[1].any()) {
            // The keeper notices that this process is gone.
            return Err(ended(process.number()));
        }
        if came[0].any() {
            return Ok(());
        }
    }
}

/// The text that this process has to write for the keeper.
///
/// # Errors
///
/// If the keeper has failed, of which it has told people itself, or if it has gone.
fn receive_text(keeper: &mut Stream) -> Result<Vec<u8>, Failure> {
    let mut keeper = BufReader::new(keeper);
    let mut text = Vec::new();
    keeper.read_until(END_OF_TEXT, &mut text).map_err(|_| gone())?;
    match text.pop() {
        Some(END_OF_TEXT) if !text.is_empty() => Ok(text),
        Some(END_OF_TEXT) => {
            let mut code = [0];
            keeper.read_exact(&mut code).map_err(|_| gone())?;
            Err(Failure::silent(code[0]))
        }
        _ => Err(gone()),
    }
}

fn gone() -> Failure {
    let message = "the process that was to keep the lock was killed; nothing is held";
    Failure::new(UNREACHABLE, message)
}
