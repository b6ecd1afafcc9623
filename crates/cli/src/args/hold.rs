//! The arguments of `navlock hold`, `release` and `extend`.

use std::{collections::HashSet, str::FromStr, time::Duration};

use clap::Args;
use navlock::{ClientId, ResourceName};

use super::{
    run::{OnLost, RequestArgs},
    values,
};

const HOLD_HELP: &str = "\
It writes the id of the hold, and a line with the fencing token of each lock, in the order in which
the names were given. A script has the locks to its end, however it ends, with

  set -e
  hold=$(navlock hold --while-pid $$ db)

and gives them back before that with

  navlock release \"$hold\"

which takes the id, or all that was written. The id is also what 'navlock query' shows as the client
id. For --json it is one object: id, and locks, each with name, mode and fencingToken (a string).

Either --while-pid or --ttl has to be given, or both; what is over first ends the hold. There is no
default, because what starts this command may be a subshell that ends in a moment, and a lock that
nobody ends would be stuck. The time of --ttl goes on while the machine is suspended.

If one of several locks is lost (stolen, or ended with its lease of etcd), all are released, and
'navlock release' says so and exits with 75. Nobody else is told unless --on-lost is given.

If this command is ended while it waits, or its output cannot be written, nothing is held.

Exit codes:
  0    the locks are held
  1    a lock is held and -n was given, or the time of -w is over; -E chooses another number. Or the
       answer could not be written
  64   the arguments are wrong, or the process of --while-pid is not there, or has ended meanwhile
  69   the broker cannot be reached or started, or there is no room for what keeps the locks
  75   a lock was lost before all were had";

/// Takes locks for a script that needs them over many commands.
///
/// A small process in the background keeps them when this command has ended: until the process of
/// --while-pid has ended, until the time of --ttl is over, or until 'navlock release', whichever is
/// first. 'navlock hold --while-pid $$ NAME' in a script does what 'exec 9>FILE; flock 9' does.
#[derive(Debug, Args)]
#[command(
    after_long_help = HOLD_HELP,
    override_usage = "navlock hold [OPTIONS] <--while-pid PID | --ttl SECS> NAME..."
)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,

    /// Take the lock from whoever holds it, as 'navlock run --steal' does.
    #[arg(long, conflicts_with_all = ["shared", "nonblock"])]
    pub(crate) steal: bool,

    /// Hold until this process has ended.
    ///
    /// $$ is the script, also within $(...). A later process that is given the same number does not count.
    #[arg(
        long, value_name = "PID", value_parser = values::process, allow_negative_numbers = true
    )]
    pub(crate) while_pid: Option<u32>,

    /// Hold for this many seconds (fractions allowed).
    ///
    /// The time begins when the locks are had. 'navlock extend' gives the hold more time.
    #[arg(
        long, value_name = "SECS", value_parser = values::seconds_above_zero,
        allow_negative_numbers = true
    )]
    pub(crate) ttl: Option<Duration>,

    /// What to do with the process of --while-pid when a lock is lost.
    ///
    /// term sends it SIGTERM, kill sends it SIGKILL, ignore sends nothing. The signal goes to this process
    /// alone, and not to those that it has started.
    #[arg(long, value_name = "HOW", value_enum, default_value = "ignore", requires = "while_pid")]
    pub(crate) on_lost: OnLost,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// The names. All of them are had, or none.
    #[arg(value_name = "NAME", required_unless_present = "locks", value_parser = values::name())]
    pub(crate) names: Vec<ResourceName>,
}

/// Releases what 'navlock hold' has taken.
///
/// When it returns, the locks are free.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit codes: 0 if it was held until now; 1 if there is no such hold (any more); 64 if this is no id;
69 if the process that keeps the locks does not answer; 75 if a lock had been lost before, and
nothing was held since then.")]
pub(crate) struct ReleaseArgs {
    /// What 'navlock hold' has written, or the client id that 'navlock query' shows.
    #[arg(value_name = "ID")]
    pub(crate) id: HoldId,
}

/// Has a hold with --ttl last longer.
///
/// It ends so many seconds from now, but never sooner than it would have.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit codes: as those of 'navlock release', and 64 if the hold has no time that it ends by.")]
pub(crate) struct ExtendArgs {
    /// What 'navlock hold' has written, or the client id that 'navlock query' shows.
    #[arg(value_name = "ID")]
    pub(crate) id: HoldId,

    /// How many seconds from now (fractions allowed). Without this, as many as --ttl said.
    #[arg(
        value_name = "SECS", value_parser = values::seconds_above_zero,
        allow_negative_numbers = true
    )]
    pub(crate) seconds: Option<Duration>,
}

impl HoldArgs {
    /// The names, each once and in the order given.
    pub(crate) fn all_names(&self) -> Vec<ResourceName> {
        let names = self.request.locks.iter().chain(&self.names);
        let mut known = HashSet::new();
        names.filter(|&name| known.insert(name)).cloned().collect()
    }
}

/// Which hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldId(pub(crate) ClientId);

impl FromStr for HoldId {
    type Err = String;

    /// Takes all that `navlock hold` has written as well: the id is its first word.
    fn from_str(text: &str) -> Result<Self, String> {
        let id = text.split_whitespace().next().and_then(|word| word.parse().ok());
        id.map(Self).ok_or_else(|| {
            "it is no id of a hold; give what 'navlock hold' has written, in quotes, or the client \
             id that 'navlock query' shows"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_hold_is_found_in_what_was_written() {
        let id = "45938644-e5b2-42a0-9dd9-729c3b367f81";
        let expected = HoldId(id.parse().unwrap());
        assert_eq!(id.parse(), Ok(expected));
        assert_eq!(format!("{id}\n17\n18\n").parse(), Ok(expected));
        for wrong in ["", "db", "17", "../45938644-e5b2-42a0-9dd9-729c3b367f81"] {
            assert!(wrong.parse::<HoldId>().is_err(), "{wrong}");
        }
    }
}
