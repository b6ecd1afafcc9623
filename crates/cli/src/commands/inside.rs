//! `navlock inside`, and all else that depends on the locks under which this process runs.

use std::process::ExitCode;

use clap::Args;
use navlock::{Inspected, LockManager, Mode, ResourceName, blocking::block_on};
use navlock_broker::is_around;

use super::Context;
use crate::{
    args::values,
    exit::{CONFLICT, Failure},
};

/// Tells whether this script runs under a lock.
///
/// It does if 'navlock run' has started it, or 'navlock hold' holds the lock for it, or for a process above it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit codes:
  0   the script runs under the lock, or under all of them
  1   it does not
  69  the broker cannot be reached or started")]
pub(crate) struct InsideArgs {
    /// The names.
    #[arg(value_name = "NAME", required = true, value_parser = values::name())]
    names: Vec<ResourceName>,
}

pub(super) fn inside(context: &Context, args: &InsideArgs) -> Result<ExitCode, Failure> {
    let reach = context.connect(context.options())?;
    let locks = context.lock_manager(&reach);
    for name in &args.names {
        if block_on(around(&locks, name))?.is_empty() {
            return Ok(CONFLICT.into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The locks of this name inside which this process runs.
pub(super) async fn around(
    locks: &LockManager,
    name: &ResourceName,
) -> Result<Vec<Inspected>, navlock::Error> {
    let held = locks.inspect(Some(name.clone())).await?.held;
    Ok(held.into_iter().filter(|held| is_outer(locks, held)).collect())
}

/// Whether the lock is one inside which this process runs. What was just granted to this process itself is none.
fn is_outer(locks: &LockManager, held: &Inspected) -> bool {
    held.lock.client_id != locks.client_id() && is_around(held)
}

/// Whether locks that this process runs inside of keep it from each of these names: then it would wait for itself.
pub(super) async fn is_in_the_way(locks: LockManager, names: Vec<(ResourceName, Mode)>) -> bool {
    for (name, mode) in names {
        let held = match locks.position(name.clone()).await {
            // FAST: mostly one holds the name, and the answer about one is short.
            Ok(known) if known.holders <= 1 => {
                known.holder.into_iter().filter(|held| is_outer(&locks, held)).collect()
            }
            _ => around(&locks, &name).await.unwrap_or_default(),
        };
        let excludes =
            |held: &Inspected| held.lock.mode == Mode::Exclusive || mode == Mode::Exclusive;
        if !held.iter().any(excludes) {
            return false;
        }
    }
    true
}
