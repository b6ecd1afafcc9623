//! The command line, and its subcommands. Each has a file or a folder, with its arguments and its work.

mod acquire;
mod clients;
mod completions;
mod context;
mod daemon;
mod doctor;
mod evict;
#[cfg(test)]
pub(crate) mod examples;
mod hold;
mod inside;
mod man;
mod meeting;
mod named;
mod outage;
#[cfg(feature = "postgres")]
mod postgres;
mod query;
#[cfg(test)]
mod reference;
mod repeating;
mod run;
mod stream_waker;
#[cfg(test)]
mod tests;
#[cfg(feature = "top")]
mod top;
mod wait;
mod watch;
#[cfg(feature = "web")]
mod web;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use self::context::Context;
pub(crate) use self::{hold::Role, run::RunArgs};
use crate::{
    args::Common,
    exit::{Failure, UNREACHABLE},
};

/// Named locks for commands, shared by all processes of a user on this machine.
///
/// A lock is held while its command runs. When the command ends or dies, in whatever way, the lock is
/// free at once. The locks are those of the Web Locks API. By an etcd or a PostgreSQL, many machines share them: see
/// 'navlock daemon run --help'.
#[derive(Debug, Parser)]
#[command(name = "navlock", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,

    #[command(subcommand)]
    pub(crate) command: Command,

    /// Which process of a `navlock hold` this is.
    #[arg(skip)]
    pub(crate) role: Role,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Query(query::QueryArgs),
    Watch(watch::WatchArgs),
    Clients(clients::ClientsArgs),
    #[cfg(feature = "web")]
    Web(web::WebArgs),
    #[cfg(feature = "top")]
    Top(top::TopArgs),
    Wait(wait::WaitArgs),
    Inside(inside::InsideArgs),
    Hold(hold::HoldArgs),
    Release(hold::ReleaseArgs),
    Extend(hold::ExtendArgs),
    Daemon(daemon::DaemonArgs),
    Doctor(doctor::DoctorArgs),
    Evict(evict::EvictArgs),
    #[cfg(feature = "postgres")]
    Postgres(postgres::PostgresArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// Runs the subcommand. If the place of the broker is not known, only subcommands that need no broker
/// can run.
pub(crate) fn dispatch(mut cli: Cli) -> Result<ExitCode, Failure> {
    cli.common.settle()?;
    if let Command::Doctor(doctor) = &mut cli.command {
        cli.common.bucket = doctor.bucket.take().or(cli.common.bucket);
    }
    let is_of_bucket = !matches!(cli.command, Command::Daemon(_));
    let (context, unplaced) = Context::new(&cli.common, cli.role, is_of_bucket);
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
        Command::Inside(args) => inside::inside(placed()?, &args),
        Command::Hold(args) => hold::hold(placed()?, &args),
        Command::Release(args) => hold::release(placed()?, &args),
        Command::Extend(args) => hold::extend(placed()?, &args),
        Command::Daemon(args) => daemon::daemon(placed()?, &args),
        Command::Doctor(args) => doctor::doctor(&context, unplaced.as_ref(), &args),
        Command::Evict(args) => evict::evict(&context, &args),
        #[cfg(feature = "postgres")]
        Command::Postgres(args) => postgres::postgres(&context, &args),
        Command::Completions(args) => completions::completions(&args, Cli::command()),
        Command::Man(args) => man::man(&args, Cli::command()),
    }
}
