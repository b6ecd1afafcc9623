//! The arguments of `navlock hold`.

use std::{collections::HashSet, time::Duration};

use clap::Args;
use navlock::ResourceName;

use crate::args::{OnLost, RequestArgs, values};

const HOLD_HELP: &str = "\
With these lines a script holds the lock until the script ends, in whatever way:

  set -e
  hold=$(navlock hold --while-pid $$ db)

With this line the script releases the lock earlier:

  navlock release \"$hold\"

The command writes the id of the hold. After the id it writes a line for each lock with the fencing
token, in the order in which the names were given. 'navlock release' takes the id alone or the whole
output, or a name that no other hold has. 'navlock query' shows the id as the client id.

With --json the command writes one object: id, and locks. Each lock has name, mode and fencingToken
(a string).

Give --while-pid, --ttl, or both. With both, the hold ends when the first of them is over. There is
no default: the process that starts this command may be a subshell that ends in a moment, and a lock
that nobody ends would be stuck. The time of --ttl also passes while the machine is suspended.

A lock is lost when it is stolen, or ends with its machine's lease. If one of several locks is lost,
all are released. 'navlock release' then says so and exits with 75. Nobody else is told unless
--on-lost is given.

If this command is ended while it waits, or cannot write its output, nothing is held. If the process
in the background is killed, its locks are free, and --on-lost tells the process of --while-pid.

Exit codes:
  0    the locks are held
  1    -n was given and a lock was not free, or the time of -w is over; -E chooses another number
  1    the output could not be written
  N    of --deadlock-exit-code, if the command would have waited for ever
  64   the arguments are wrong, or the process of --while-pid does not exist or has ended
  69   the broker or the store cannot be reached, as for 'navlock run'
       or there is no room for the process that keeps the locks
  70   a lock is held for this script already, so it would wait for itself
  75   a lock was lost before all of them were held";

/// Takes locks for a script that needs them over many commands.
///
/// A small process in the background keeps the locks when this command has ended. It keeps them until the
/// process of --while-pid has ended, until the time of --ttl is over, or until 'navlock release', whichever
/// comes first.
///
/// In a script, 'navlock hold --while-pid $$ NAME' does what 'exec 9>FILE; flock 9' does.
#[derive(Debug, Args)]
#[command(
    after_long_help = HOLD_HELP,
    override_usage = "navlock hold [OPTIONS] <--while-pid PID | --ttl SECS> NAME..."
)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(super) request: RequestArgs,

    /// Take the lock from its holders, as 'navlock run --steal' does.
    #[arg(long, conflicts_with_all = ["shared", "nonblock"])]
    pub(super) steal: bool,

    /// Hold until this process has ended.
    ///
    /// $$ is the script, also within $(...). A later process with the same number does not count.
    #[arg(
        long, value_name = "PID", value_parser = values::process, allow_negative_numbers = true
    )]
    pub(super) while_pid: Option<u32>,

    /// Hold for this time: seconds, or a time with units, as in 1m30s.
    ///
    /// The time begins when all locks are held. 'navlock extend' gives the hold more time.
    #[arg(
        long, value_name = "TIME", value_parser = values::time_above_zero,
        allow_negative_numbers = true
    )]
    pub(super) ttl: Option<Duration>,

    /// What to do with the process of --while-pid when a lock is lost.
    ///
    /// term sends SIGTERM, kill sends SIGKILL, and ignore sends nothing. The signal goes to this process
    /// alone, and not to the processes that it has started.
    #[arg(long, value_name = "HOW", value_enum, default_value = "ignore", requires = "while_pid")]
    pub(super) on_lost: OnLost,

    /// Write one JSON object.
    #[arg(long)]
    pub(super) json: bool,

    /// The names; all of them are held, or none.
    #[arg(value_name = "NAME", required_unless_present = "locks", value_parser = values::name())]
    pub(super) names: Vec<ResourceName>,
}

impl HoldArgs {
    /// The names, each once and in the order given.
    pub(super) fn all_names(&self) -> Vec<ResourceName> {
        let names = self.request.locks.iter().chain(&self.names);
        let mut known = HashSet::new();
        names.filter(|&name| known.insert(name)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples, check_refusal, parsed};

    impl Examples for HoldArgs {
        const LINES: &'static [&'static str] = &["hold {} db"];

        const FLAGS: &'static [Flag<Self>] = &[
            (&["--steal"], |hold| hold.steal),
            (&["--while-pid 17"], |hold| hold.while_pid == Some(17)),
            (&["--ttl 1.5"], |hold| hold.ttl == Some(Duration::from_millis(1500))),
            (&["--on-lost term --while-pid 17"], |hold| hold.on_lost == OnLost::Terminate),
            (&["--on-lost kill --while-pid 17"], |hold| hold.on_lost == OnLost::Kill),
            (&["--json"], |hold| hold.json),
        ];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<HoldArgs>();
    }

    #[test]
    fn a_process_is_told_of_a_loss_only_if_that_is_asked_and_the_process_is_known() {
        assert_eq!(parsed::<HoldArgs>("hold --while-pid 17 db").on_lost, OnLost::Ignore);
        let line = "hold --on-lost kill --ttl 1 db";
        check_refusal(line, ErrorKind::MissingRequiredArgument, &["--while-pid"]);
    }

    #[test]
    fn a_hold_ends_after_some_time_or_with_a_process_that_can_exist() {
        for (flag, named) in [
            ("--ttl 0", "--ttl"),
            ("--ttl -1", "--ttl"),
            ("--while-pid 0", "--while-pid"),
            ("--while-pid -1", "--while-pid"),
            ("--while-pid x", "--while-pid"),
        ] {
            check_refusal(&format!("hold {flag} db"), ErrorKind::ValueValidation, &[named]);
        }
    }

    #[test]
    fn a_theft_neither_shares_nor_refuses_to_wait() {
        for (flag, named) in [("-s", "--shared"), ("-n", "--nonblock")] {
            let line = format!("hold --steal {flag} db");
            check_refusal(&line, ErrorKind::ArgumentConflict, &["--steal", named]);
        }
    }

    #[test]
    fn names_stand_at_the_end_or_behind_a_flag_and_each_counts_once() {
        assert_eq!(parsed::<HoldArgs>("hold -l b -l a c a c").all_names(), ["b", "a", "c"]);
        check_refusal("hold --ttl 1", ErrorKind::MissingRequiredArgument, &["NAME"]);
    }
}
