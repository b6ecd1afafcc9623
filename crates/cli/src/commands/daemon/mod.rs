//! `navlock daemon`: the broker itself.

mod logs;
mod run;
mod status;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use navlock::{Error, Place, Reason, Status};
use navlock_broker::{Control, Stopped};

use self::logs::LogLevelArgs;
pub(super) use self::{
    logs::LogsArgs,
    run::{DaemonRunArgs, idle_seconds},
    status::StatusArgs,
};
use super::Context;
use crate::{
    counts::prometheus,
    exit::{Failure, answer},
    text::printable,
};

/// The broker itself, which clients start when they need it.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    command: DaemonCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    Run(DaemonRunArgs),
    /// Starts the broker if it is not running.
    Start,
    /// Ends the broker.
    ///
    /// Connected clients start another broker and keep their locks.
    ///
    /// Of the machine's broker (--system) only root and its own user can do this.
    ///
    /// Exit codes: 0 if the broker has ended or none runs; 1 if it does not end; 69 if it cannot be asked.
    Stop,
    Status(StatusArgs),
    Logs(LogsArgs),
    LogLevel(LogLevelArgs),
    /// Prints the broker's numbers for Prometheus.
    ///
    /// Exit codes: 0, or 69 if no broker runs.
    Metrics,
}

pub(super) fn daemon(context: &Context, args: &DaemonArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        DaemonCommand::Run(args) => run::run(&context.place, args),
        DaemonCommand::Start => start(context),
        DaemonCommand::Stop => stop(context),
        DaemonCommand::Status(args) => status::status(context, args),
        DaemonCommand::Logs(args) => logs::logs(context, args),
        DaemonCommand::LogLevel(args) => logs::set_level(context, args),
        DaemonCommand::Metrics => answer(prometheus(&context.place)?),
    }
}

fn start(context: &Context) -> Result<ExitCode, Failure> {
    let done = match Control::connect(&context.place) {
        Ok(_) => "is running already",
        // It is also possible that the broker has just ended, or was killed.
        Err(error) if matches!(error.reason(), Reason::NotRunning | Reason::Vanished) => {
            drop(context.connect(context.options())?);
            "was started; without clients it ends after a while"
        }
        Err(error) => return Err(Error::from(error).into()),
    };
    let status = Control::connect(&context.place).map_err(Error::from)?.status();
    let broker = named(&context.place, status.ok().as_ref());
    answer(format!("{broker} {done}\n"))
}

fn stop(context: &Context) -> Result<ExitCode, Failure> {
    let stopped = navlock_broker::stop(&context.place);
    let Some(Stopped { status, signalled, .. }) =
        stopped.map_err(|error| match error.reason() {
            Reason::Hangs(_) => Failure::new(1, &error),
            Reason::Refused(why) if context.place.is_of_system() => {
                Failure::new(1, format_args!("the broker goes on: {}", printable(why)))
            }
            _ => Error::from(error).into(),
        })?
    else {
        let socket = context.place.socket().display();
        return answer(format!("no broker is running at {socket}\n"));
    };
    let rest = match status.as_ref().map_or(0, |status| status.numbers.clients) {
        0 => String::new(),
        _ if context.place.is_of_system() => {
            "; its clients keep their locks, and wait until it is started again".to_owned()
        }
        1 => "; its client starts another one and keeps its locks".to_owned(),
        clients => format!("; its {clients} clients start another one and keep their locks"),
    };
    let how = if signalled { ", by a signal: it did not answer the question to end" } else { "" };
    answer(format!("{} has ended{how}{rest}\n", named(&context.place, status.as_ref())))
}

/// The name of the broker for people.
fn named(place: &Place, status: Option<&Status>) -> String {
    let process = status.map_or_else(String::new, |status| format!("process {}, ", status.pid));
    format!("the broker ({process}{})", place.socket().display())
}
