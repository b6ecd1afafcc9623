//! The subcommands, one file each.

mod daemon;
mod query;
mod run;
mod supervise;

use std::process::ExitCode;

use navlock::{BrokerReach, ConnectOptions};
use navlock::{Error, blocking::block_on};

use crate::{
    args::{Broker, Cli, Command},
    exit::Failure,
};

pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Query(args) => query::query(&args),
        Command::Daemon(args) => daemon::daemon(args),
    }
}

/// Connects to the broker. If it has to be started, it is this same program.
fn connect(broker: &Broker) -> Result<BrokerReach, Failure> {
    let mut options = ConnectOptions::default().place(broker.place());
    if let Ok(program) = std::env::current_exe() {
        options = options.program(program);
    }
    block_on(BrokerReach::connect(options)).map_err(|error| Error::from(error).into())
}
