//! The subcommands, one file each.

mod acquire;
mod completions;
mod daemon;
mod doctor;
mod man;
mod query;
mod run;
mod supervise;
mod wait;

use std::{process::ExitCode, time::Duration};

use clap::ColorChoice;
use navlock::{
    BrokerReach, ConnectError, ConnectOptions, Error, LockManager, Place, UserAgent,
    blocking::block_on,
};

use crate::{
    args::{Cli, Command, Common},
    exit::Failure,
    voice::Voice,
};

pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode, Failure> {
    let context = Context::new(&cli.common);
    match cli.command {
        Command::Run(args) => run::run(&context, args),
        Command::Query(args) => query::query(&context, &args),
        Command::Wait(args) => wait::wait(&context, &args),
        Command::Daemon(args) => daemon::daemon(&context, &args),
        Command::Doctor(args) => doctor::doctor(&context, &args),
        Command::Completions(args) => completions::completions(&args),
        Command::Man(args) => man::man(&args),
    }
}

/// What the common options chose.
struct Context {
    bucket: String,
    place: Place,
    voice: Voice,
    colour: ColorChoice,
}

impl Context {
    fn new(common: &Common) -> Self {
        // Both may come from a variable, for which to be empty is to be unset.
        let bucket = if common.bucket.is_empty() { "default" } else { &common.bucket };
        let place = match &common.socket {
            Some(socket) if !socket.as_os_str().is_empty() => Place::at(socket),
            _ => Place::of_user(),
        };
        let (voice, colour) = (Voice::of(common), common.color);
        Self { bucket: bucket.to_owned(), place, voice, colour }
    }

    /// Connects to the broker, within this time if one is given. If it has to be started, it is
    /// this same program.
    fn connect(&self, timeout: Option<Duration>) -> Result<BrokerReach, Failure> {
        let options = ConnectOptions::default();
        self.connect_by(timeout.into_iter().fold(options, ConnectOptions::timeout))
    }

    /// Connects to the broker, to ask it things and for no locks.
    fn connect_to_ask(&self) -> Result<BrokerReach, Failure> {
        self.connect_by(ConnectOptions::default().only_questions())
    }

    fn connect_by(&self, options: ConnectOptions) -> Result<BrokerReach, Failure> {
        let mut options = options.place(self.place.clone());
        if let Ok(program) = std::env::current_exe() {
            options = options.program(program);
        }
        let reach = block_on(BrokerReach::connect(options)).map_err(Error::from)?;
        self.voice.detail(format_args!("connected to {}", self.place.socket().display()));
        Ok(reach)
    }

    /// Connects to the broker, if there is one.
    fn connect_to_running(&self) -> Result<BrokerReach, ConnectError> {
        let options = ConnectOptions::default().place(self.place.clone());
        block_on(BrokerReach::connect(options.only_running().only_questions()))
    }

    /// A new agent.
    fn lock_manager(&self, reach: &BrokerReach) -> LockManager {
        UserAgent::with_reach(reach.clone()).lock_manager(&self.bucket)
    }
}
