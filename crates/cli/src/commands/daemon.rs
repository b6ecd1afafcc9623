//! `navlock daemon`: the broker itself.

use std::{
    fs::File,
    io::{self, Write},
    process::ExitCode,
};

use navlock_broker::daemon::{self, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    args::{DaemonArgs, DaemonCommand},
    descriptors::close_inherited,
    exit::{Failure, UNREACHABLE},
};

pub(crate) fn daemon(args: DaemonArgs) -> Result<ExitCode, Failure> {
    close_inherited();
    let DaemonCommand::Run(args) = args.command;
    let place = args.broker.place();
    // Away from the terminal and the process group of whoever happened to need us first. It fails
    // if we lead a group already, as when somebody tries us out in a shell; then that is meant.
    let _ = rustix::process::setsid();
    raise_descriptor_limit();
    let mut options = Options::default();
    options.idle = Some(args.idle_seconds);
    daemon::run(&place, daemon::user_agent(), options, detach)
        .map_err(|error| Failure::new(UNREACHABLE, error))?;
    Ok(ExitCode::SUCCESS)
}

/// Has as many descriptors as we may: each client takes one, and the usual 1024 are there for the
/// sake of programs that use `select`.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If not, there are fewer clients.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Says that we listen, then lets go of those who wait for that.
fn detach() {
    // Who waited for it may be gone, which is no reason not to serve the others.
    let _ = writeln!(io::stdout(), "{}", daemon::READY_LINE);
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
