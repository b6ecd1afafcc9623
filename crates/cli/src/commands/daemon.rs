//! `navlock daemon`: the broker itself.

use std::{fs::File, process::ExitCode};

use navlock_broker::daemon::{self, Options};

use crate::{
    args::{DaemonArgs, DaemonCommand},
    exit::{Failure, UNREACHABLE},
};

pub(crate) fn daemon(args: DaemonArgs) -> Result<ExitCode, Failure> {
    let DaemonCommand::Run(args) = args.command;
    let place = args.broker.place();
    // Away from the terminal and the process group of whoever happened to need us first. It fails
    // if we lead a group already, as when somebody tries us out in a shell; then that is meant.
    let _ = rustix::process::setsid();
    let mut options = Options::default();
    options.idle = Some(args.idle_seconds);
    daemon::run(&place, daemon::user_agent(), options, detach)
        .map_err(|error| Failure::new(UNREACHABLE, error))?;
    Ok(ExitCode::SUCCESS)
}

/// Says that we listen, then lets go of those who wait for that.
fn detach() {
    println!("{}", navlock_broker::daemon::READY_LINE);
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
