//! The arguments of `navlock query`.

use std::time::Duration;

use clap::Args;
use navlock::ResourceName;

use crate::args::values;

/// Shows who holds and who waits for locks.
#[derive(Debug, Default, Args)]
#[command(after_long_help = "\
The table is for people and may change. Programs use --json.

With --json each line is one object. It has state (held, pending or owned), name, mode and clientId,
and these as far as they are known:
  bucket        with --all-buckets only
  pid, command, user, host, why
  keeper        the navlock that keeps the lock for this process
  meta          an object
  ageMs         for how long it has been held, pending or owned
  position      of a pending request; 1 is the next
  fencingToken  of a held lock: a string, because numbers of 64 bits are not safe in JavaScript
  taken         of an owned name: how often it was taken without asking
  stopped       if its process on this machine is stopped: the number of the process, in a list
A lone surrogate in a name is written as the escape \\ud8xx or \\udcxx.

-v also shows owned names. Nobody holds an owned name. The client that had it last can take it again
without asking the broker, until somebody else asks for the name.

Between machines, the one that owns a name is asked who holds it. If it does not answer within 2.5 s
(half of the time to live, if that is less), the machine is shown in brackets in the holder's place.

--watch looks once a second until it is interrupted (exit code 130 in a shell). On a terminal it
redraws the table. Elsewhere, and with --json, it writes everything whenever something has changed,
and an empty line after it.

--tree shows who waits for whom. Each tree begins with one who waits for nobody. The trees that
block the most requests come first. The line of each waiter says why it waits:
  hard            the lock above is held
  soft            the request above is ahead of it in the queue
  inside          it holds a lock, and releases that once the request above is done, which was made
                  under that lock
  perhaps inside  nobody has said under which lock the request above was made; or a process made it
                  that the holder's program has started, and the program may wait for that or not
After the trees come cycles. The line above a cycle says whether it is a deadlock, a possible
deadlock, or a cycle that has not lasted for a second and may pass. Below each tree and cycle are
lines to paste that would end it:
  kill -CONT           lets a stopped process go on
  kill                 ends a process
  navlock release      gives back a hold
  navlock evict        removes what another machine has left
  navlock run --steal  takes the lock from its holder
Only trees and cycles are shown that contain NAME, if one is given, in the bucket (with
--all-buckets, in any). With --longer-than one of their requests has waited for longer than that.

--tree --json writes one object a line for each tree and each cycle:
  blocks         how many requests wait
  longestWaitMs
  cycle          true or false
  deadlock       of a cycle that has lasted for a second: certain or possible
  givesWay       of such a cycle: clientId/serial of the request that gives way
  rows, remedies
A row has depth, state (held or pending), bucket, name, mode, clientId, serial and ageMs, and these
as far as they are known:
  pid, command, user, host, why, keeper, meta
  block     why it waits, unless depth is 0: hard, soft, inside, or in place of perhaps inside
            same-agent (nobody has said so) or inside-agent (by a process that the program of the
            lock has started)
  stopped   the numbers of its processes that are stopped
  silentMs  for how long its machine has not been heard of
  endsInMs  if that stays so: after what time others can have what it has
The row at depth 0 blocks all others. clientId and serial together name the lock or request. A
remedy has kind (continue, end, release, evict or steal), does, line, and host if the line is to be
pasted on that host.")]
#[expect(clippy::struct_excessive_bools, reason = "they are switches of a command line")]
pub(crate) struct QueryArgs {
    /// Show this name only.
    ///
    /// Without a name, all names are shown.
    #[arg(value_parser = values::name())]
    pub(super) name: Option<ResourceName>,

    /// Write one JSON object a line.
    #[arg(long)]
    pub(super) json: bool,

    /// Look once a second, and show each change.
    #[arg(long)]
    pub(super) watch: bool,

    /// Show as a tree who waits for whom, and how to end the wait.
    #[arg(long, conflicts_with = "watch")]
    pub(super) tree: bool,

    /// Show all buckets, each entry with its own.
    #[arg(short, long, conflicts_with = "watch")]
    pub(super) all_buckets: bool,

    /// Show only what has been held or waited for longer than this time.
    ///
    /// A time is written as 90, 90s, 1m30s or 2h.
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(super) longer_than: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples, check_refusal, parsed};

    impl Examples for QueryArgs {
        const LINES: &'static [&'static str] = &["query {}", "query {} db"];

        const FLAGS: &'static [Flag<Self>] = &[
            (&["--json"], |query| query.json),
            (&["--watch"], |query| query.watch),
            (&["--tree"], |query| query.tree),
            (&["-a", "--all-buckets"], |query| query.all_buckets),
            (&["--longer-than 90", "--longer-than 1m30s"], |query| {
                query.longer_than == Some(Duration::from_secs(90))
            }),
        ];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<QueryArgs>();
    }

    #[test]
    fn one_name_is_shown_or_all() {
        assert_eq!(parsed::<QueryArgs>("query").name, None);
        assert_eq!(parsed::<QueryArgs>("query db").name.unwrap(), "db");
        check_refusal("query a b", ErrorKind::UnknownArgument, &["b"]);
    }

    #[test]
    fn a_watch_is_of_one_bucket_and_shows_no_tree() {
        for (flag, named) in [("--tree", "--tree"), ("-a", "--all-buckets")] {
            let line = format!("query --watch {flag}");
            check_refusal(&line, ErrorKind::ArgumentConflict, &["--watch", named]);
        }
    }

    #[test]
    fn a_time_is_not_negative() {
        let named = ["--longer-than", "-1s"];
        check_refusal("query --longer-than=-1s", ErrorKind::ValueValidation, &named);
    }
}
