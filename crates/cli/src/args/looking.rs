//! The arguments of the commands that show who holds and who waits.

use std::time::Duration;

use clap::Args;
use navlock::ResourceName;

use super::values;

/// Shows who holds and who waits for locks.
#[derive(Debug, Default, Args)]
#[command(after_long_help = "\
The table is for people and may change. For programs there is --json: one object a line, with
state (held, pending), name, mode, clientId, and as far as they are known pid, command, user, host,
why, meta (an object), ageMs, position (of what is pending; 1 is the next), and fencingToken (of
what is held), which is a string, as numbers of 64 bits are not safe in JavaScript. A lone surrogate
in a name is written as the escape \\ud8xx or \\udcxx.

With -v also the names are shown that are owned: nobody holds them, and who had them last can take
them again without asking the broker, until somebody else asks for them. Their ageMs is since then,
and taken says how often that was done.

With etcd, a machine that keeps a name is asked who holds it. One that does not say so within 2.5 s
(half of the time to live, if that is less) is shown in the holder's place, as (a machine).

--watch looks once a second until it is interrupted (exit code 130 in a shell). On a terminal it
redraws the table. Elsewhere, and with --json, it writes what there is whenever that has changed,
and an empty line after it.

--tree shows first who holds up the most, without waiting for anybody, and below it who waits for
it: hard, if the lock above is held; soft, if the request above is ahead of it in the queue;
inside, if it holds a lock and goes on once the request above, which was made under that lock, is
done; perhaps inside, if nobody has said under which lock the request was made, or on another
machine it was made under one of several that its holder may have. Then come cycles, with what
kind of deadlock each is. Below each are lines to paste that would end it: to have a stopped
process go on (kill -CONT), to end a process (kill), to give back a hold (navlock release), to
remove what another machine has left (navlock evict), or to take the lock from whoever holds it
(navlock run --steal). With NAME, or a bucket, it shows the trees in which that is. A deadlock is
told when it has lasted for a second.

--tree --json is one object a line for each tree: blocks (how many requests wait), longestWaitMs,
cycle, deadlock (certain or possible), closedBy (clientId/serial of the request that closed it),
rows, and remedies. A row has depth (0 is who blocks all others), block (hard, soft, inside,
same-agent, inside-agent: inside a lock of that agent's on another machine), serial, stopped (the
processes of it that are), silentMs and endsInMs (of another machine's that has not been heard of:
for how long, and in what time others can have what it has, if that stays so), and else what it
has without --tree. A remedy has kind (continue, end, release, evict, steal), does, line, and host
if it is to be pasted there.")]
#[expect(clippy::struct_excessive_bools, reason = "they are switches of a command line")]
pub(crate) struct QueryArgs {
    /// Show this name only. Without one, all names.
    #[arg(value_parser = values::name())]
    pub(crate) name: Option<ResourceName>,

    /// Write one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,

    /// Look once a second, and show each change.
    #[arg(long)]
    pub(crate) watch: bool,

    /// Show as a tree who waits for whom, and how to end the wait.
    #[arg(long, conflicts_with = "watch")]
    pub(crate) tree: bool,

    /// Show all buckets, each entry with its own.
    #[arg(short, long, conflicts_with = "watch")]
    pub(crate) all_buckets: bool,

    /// Show only what has been held or waited for longer than this time.
    ///
    /// A time is written as 90, 90s, 1m30s or 2h.
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) longer_than: Option<Duration>,
}

/// Shows what happens to locks, as it happens.
#[derive(Debug, Args)]
#[command(after_long_help = "\
First what there is: a line for each lock that is held and each request that waits. Then a line for
each event: requested, granted, unavailable (it could not be had at once), released, aborted,
stolen, lost, recalled; owned for a name that its owner takes and releases without asking the
broker, as it was seen to be when it was looked at, four times a second; and of clients and their
agents, with -v or --json, client-came, client-went, agent-came, agent-went. With --json there is
also inside, when it comes to be known inside which locks the one was requested that was told of.

With --json one object a line: event, at (milliseconds since 1970), and as far as they are known
bucket, name, mode, clientId, serial (with clientId, which request or lock it is), pid, command,
user, host, why, meta, fencingToken, ageMs (of a request that was granted or aborted: for how long
it had waited; of a lock that was released or lost: for how long it was held), how, by (who has
stolen it), inside (the locks inside which it was requested) and taken.

Whoever reads too slowly misses some: that is said, with how many (missed), and what there is is
told anew; so it is, once a second, when something has changed on other machines. A name that
another machine keeps is owned by that machine, whether somebody holds it there or not. With etcd
the buckets are those that clients of this machine use, and of one that has more than some 10,000
locks and requests not all of other machines are shown: that is said as well (left-out, with how
many: leftOut). It goes on until it is interrupted (exit code 130 in a shell), also when the broker
ends and another one comes: recovered, if that has taken over.")]
pub(crate) struct WatchArgs {
    /// Watch these names only. Without one, all names.
    #[arg(value_parser = values::name())]
    pub(crate) names: Vec<ResourceName>,

    /// Write one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,

    /// Watch all buckets.
    #[arg(short, long)]
    pub(crate) all_buckets: bool,
}

/// Shows the processes that use the broker, and how much each holds and waits for.
#[derive(Debug, Args)]
#[command(after_long_help = "\
STATE is connected; orphaned, if the process was killed and its command, which goes on, keeps its
locks; or sleeping, if it has not come back since the broker before this one and lives.

With --json one object a line: pid, state, ageMs, held, pending, owned, buckets, and agents, each
with clientId, bucket, and as far as they are known pid, command, user, host, why and meta.")]
pub(crate) struct ClientsArgs {
    /// Write one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows live in the terminal who holds what, who waits, and for how long.
#[cfg(feature = "top")]
#[derive(Debug, Args)]
#[command(after_long_help = "\
A table of all names, who has waited longest first: mode, who holds it and for how long (HELD),
how many wait (QUEUE) and the longest of them for how long (WAIT), how often it is granted in a
second (RATE, of the last ten), and how long requests waited that were granted since this was
started (MEAN, and P99, what 99 of 100 waited at most). A holder in brackets owns the name and
does not hold it; if that is another machine, somebody may hold the name there. Below the table, for
the chosen line, what could be pasted to end it. Names that nobody uses are forgotten after a
minute.

Keys:
  q                 quit
  ?                 help
  up, down, k, j    choose a line; also PgUp, PgDn, Home, End
  Enter             show the name: who holds it, its queue in order, and what has happened
  Esc               back; in the table, show all names again
  s, r              sort by the next column; reverse the order
  /                 show the names only that have a text in them
  b                 show the next bucket only, and after the last one all
  t                 the tree: who waits for whom, as 'navlock query --tree' shows it
  c                 clients, as 'navlock clients' shows them
  d                 deadlocks
  n                 the table of names again
  p, space          pause: show what there was at that moment, until it is pressed again
  S                 take the lock from whom it names before it asks (only with --allow-steal)
  ^L                draw the whole screen anew

It shows all buckets, unless --bucket or NAVLOCK_BUCKET names one; b shows the others. It needs a
terminal: elsewhere there are 'navlock query --watch' and 'navlock watch'.")]
pub(crate) struct TopArgs {
    /// Have S steal locks.
    #[arg(long)]
    pub(crate) allow_steal: bool,
}
