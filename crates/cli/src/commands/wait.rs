//! `navlock wait`: until a lock is free.

use std::process::ExitCode;

use clap::Args;
use navlock::{ResourceName, this_process};

use super::{Context, acquire::Request};
use crate::{
    args::{RequestArgs, Take, values},
    exit::Failure,
};

/// Waits until a lock is free.
///
/// The command takes the lock in its turn, after all earlier requests, and releases it at once. When the
/// command returns, all earlier holders and waiters are done. With --shared this is true of the exclusive ones
/// only: shared ones may still hold the lock. Another client may have the lock by then.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit codes:
  0               the lock was free
  1               -n was given and the lock was not free, or the time of -w is over; -E chooses
                  another number
  N               of --deadlock-exit-code, if the command would have waited for ever
  64, 69, 70, 75  as for 'navlock run'")]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    request: RequestArgs,

    /// The names.
    ///
    /// With several names, wait until all of them are free at one moment.
    #[arg(value_name = "NAME", required_unless_present = "locks", value_parser = values::name())]
    names: Vec<ResourceName>,
}

pub(super) fn wait(context: &Context, args: &WaitArgs) -> Result<ExitCode, Failure> {
    let request = Request::new(context, &args.request)?;
    let mut info = this_process();
    "navlock wait".clone_into(&mut info.command);
    args.request.describe(&mut info)?;
    request.locks.describe(&info);
    let mut names: Vec<_> = args.request.locks.iter().chain(&args.names).cloned().collect();
    names.sort();
    names.dedup();
    args.request.check_names(&names)?;
    drop(request.acquire(&names, Take::All)?);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::commands::examples::{check_refusal, parsed};

    #[test]
    fn names_stand_at_the_end_or_behind_a_flag() {
        assert_eq!(parsed::<WaitArgs>("wait b a").names, ["b", "a"]);
        assert_eq!(parsed::<WaitArgs>("wait -l a").request.locks, ["a"]);
        check_refusal("wait", ErrorKind::MissingRequiredArgument, &["NAME"]);
    }
}
