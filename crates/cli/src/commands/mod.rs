//! The subcommands, one file each.

mod acquire;
mod clients;
mod completions;
mod context;
mod daemon;
mod doctor;
mod evict;
mod hold;
mod logs;
mod man;
mod outage;
mod query;
mod run;
mod stream_waker;
mod supervise;
#[cfg(feature = "top")]
mod top;
mod wait;
mod watch;
#[cfg(feature = "web")]
mod web;

use std::process::ExitCode;

use self::context::Context;
use crate::{
    args::{Cli, Command},
    exit::{Failure, UNREACHABLE},
};

/// Runs the subcommand. If the place of the broker is not known, only subcommands that need no broker
/// can run.
pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode, Failure> {
    let (context, unplaced) = Context::new(&cli.common, cli.is_keeper);
    let placed = || match &unplaced {
        None => Ok(&context),
        Some(error) => {
            let message = format_args!("cannot tell where the broker is: {error}");
            Err(Failure::new(UNREACHABLE, message))
        }
    };
    match cli.command {
        Command::Run(args) => run::run(placed()?, args),
        Command::Query(args) => query::query(placed()?, &args),
        Command::Watch(args) => watch::watch(placed()?, &args),
        Command::Clients(args) => clients::clients(placed()?, &args),
        #[cfg(feature = "web")]
        Command::Web(args) => web::web(placed()?, &args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::top(placed()?, &args),
        Command::Wait(args) => wait::wait(placed()?, &args),
        Command::Hold(args) => hold::hold(placed()?, &args),
        Command::Release(args) => hold::release(placed()?, &args),
        Command::Extend(args) => hold::extend(placed()?, &args),
        Command::Daemon(args) => daemon::daemon(placed()?, &args),
        Command::Doctor(args) => doctor::doctor(&context, unplaced.as_ref(), &args),
        Command::Evict(args) => evict::evict(&context, &args),
        Command::Completions(args) => completions::completions(&args),
        Command::Man(args) => man::man(&args),
    }
}
