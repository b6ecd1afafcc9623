//! `navlock postgres`: sets navlock up in a database, and takes it away.

use std::{env, process::ExitCode};

use clap::{Args, Subcommand};

use super::Context;
use crate::{
    args::SettingsArgs,
    exit::{CONFLICT, Failure, UNREACHABLE, USAGE, answer},
    settings::{Postgres, Settings, Store},
};

/// Sets navlock up in a PostgreSQL, or takes it away.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit codes:
  0   done, or set up already
  1   machines use what is to be dropped, and --yes is not given
  64  no PostgreSQL is named
  69  the settings or the PostgreSQL cannot be used, or it refuses")]
pub(crate) struct PostgresArgs {
    #[command(subcommand)]
    command: PostgresCommand,
}

#[derive(Debug, Subcommand)]
enum PostgresCommand {
    Init(InitArgs),
    Drop(DropArgs),
}

/// Sets up what brokers need: a schema with tables and functions.
///
/// The user of the URL becomes the owner. Its password is read from the variable PGPASSWORD, if the URL has none. Who
/// shall lock needs the right to use the schema: 'grant usage on schema navlock to ROLE'.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Print the SQL, and change nothing.
    #[arg(long)]
    print: bool,

    #[command(flatten)]
    settings: SettingsArgs,
}

/// Drops the schema, with all locks.
///
/// If machines use it, or have used it before a crash, this needs --yes: their holders lose their locks.
#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// Drop it although machines use it.
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn postgres(context: &Context, args: &PostgresArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        PostgresCommand::Init(args) => init(&of(context, &args.settings)?, args.print),
        PostgresCommand::Drop(args) => drop_schema(&of(context, &args.settings)?, args.yes),
    }
}

/// The PostgreSQL of the settings.
fn of(context: &Context, args: &SettingsArgs) -> Result<Postgres, Failure> {
    let settings = Settings::load(args, context.place.store()).map_err(failed)?;
    match settings.store {
        Some(Store::Postgres(mut postgres)) => {
            let password = env::var("PGPASSWORD").ok();
            let is_missing = matches!(postgres.options.has_password(), Ok(false));
            if let Some(password) = password.filter(|_| is_missing) {
                postgres.options = postgres.options.password(password);
            }
            Ok(postgres)
        }
        _ => Err(Failure::new(
            USAGE,
            "no PostgreSQL is named; give --postgres postgres://user@host/database, or a --store that is on one",
        )),
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(UNREACHABLE, why)
}

fn init(postgres: &Postgres, prints: bool) -> Result<ExitCode, Failure> {
    let (options, address) = (&postgres.options, &postgres.address);
    let schema = options.schema_name();
    if prints {
        return answer(navlock_postgres::schema(schema));
    }
    let health = navlock_postgres::check(options).map_err(failed)?;
    if health.is_set_up {
        // Another release may have done it.
        health.calls.map_err(failed)?;
        return answer(format!("navlock is set up already in the schema {schema} at {address}\n"));
    }
    navlock_postgres::init(options).map_err(failed)?;
    answer(format!(
        "navlock is set up in the schema {schema} at {address}; who shall lock needs: grant usage on schema {schema} to ROLE\n"
    ))
}

fn drop_schema(postgres: &Postgres, is_sure: bool) -> Result<ExitCode, Failure> {
    let (options, address) = (&postgres.options, &postgres.address);
    let machines = navlock_postgres::machines(options).map_err(failed)?;
    if machines > 0 && !is_sure {
        let why = format!(
            "machines that use it: {machines}; end their brokers ('navlock daemon stop --store NAME'), or give --yes, by \
             which their holders lose their locks. One that died counts until another one has looked after it"
        );
        return Err(Failure::new(CONFLICT, why));
    }
    navlock_postgres::remove(options).map_err(failed)?;
    answer(format!("the schema {} at {address} is dropped\n", options.schema_name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples};

    impl Examples for InitArgs {
        const LINES: &'static [&'static str] = &["postgres init {}"];

        const FLAGS: &'static [Flag<Self>] = &[(&["--print"], |init| init.print)];
    }

    impl Examples for DropArgs {
        const LINES: &'static [&'static str] = &["postgres drop {}"];

        const FLAGS: &'static [Flag<Self>] = &[(&["--yes"], |drop| drop.yes)];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<InitArgs>();
        check_examples::<DropArgs>();
    }
}
