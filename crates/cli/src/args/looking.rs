//! The arguments of the commands that show who holds and who waits.

use std::time::Duration;

use clap::Args;
use navlock::ResourceName;

use super::values;

/// Shows who holds and who waits for locks.
#[derive(Debug, Default, Args)]
#[command(after_long_help = "\
The table is for people and may change. Programs use --json.

With --json each line is one object. It has state (held, pending or owned), name, mode and clientId,
and these as far as they are known:
  bucket        with --all-buckets only
  pid, command, user, host, why
  meta          an object
  ageMs         for how long it has been held, pending or owned
  position      of a pending request; 1 is the next
  fencingToken  of a held lock: a string, because numbers of 64 bits are not safe in JavaScript
  taken         of an owned name: how often it was taken without asking
A lone surrogate in a name is written as the escape \\ud8xx or \\udcxx.

-v also shows owned names. Nobody holds an owned name. The client that had it last can take it again
without asking the broker, until somebody else asks for the name.

With etcd, a machine that keeps a name is asked who holds it. If it does not answer within 2.5 s
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
  perhaps inside  nobody has said under which lock the request above was made; or the request was
                  made on another machine, under one of several locks that its holder may have
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
  closedBy       of such a cycle: clientId/serial of the request that closed it
  rows, remedies
A row has depth, state (held or pending), bucket, name, mode, clientId, serial and ageMs, and these
as far as they are known:
  pid, command, user, host, why, meta
  block     why it waits, unless depth is 0: hard, soft, inside, or in place of perhaps inside
            same-agent (nobody has said so) or inside-agent (the request was made on another
            machine)
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
It first writes a line for each held lock, each pending request and each owned name. Then it writes
a line for each event. It goes on until it is interrupted (exit code 130 in a shell).

Events of locks and requests:
  requested, granted, released, aborted, stolen, lost
  unavailable  the lock was not available at once
  recalled     a name that nobody held has lost its owner, as when somebody else asks for it
  owned        an owner takes and releases the name without asking the broker; this is looked at
               four times a second
Events with -v or --json only:
  client-came, client-went, agent-came, agent-went
  agent-silent  the agent's machine should have been heard of, and was not
  recovered     another broker has taken over
With --json only:
  picture      what there is follows: forget all locks, requests and owned names that were told
               before. It is the first line, and comes again after missed events, with another
               broker, and when there is no broker: then nothing follows
  inside       it became known inside which locks a request was made
People read a sentence in place of these two events:
  missed       this reader was too slow and has missed so many events; everything is told anew
  left-out     so many locks and requests of other machines are not shown

With --json each line is one object. It has event, which is held, pending or owned for what there
is, and at (milliseconds since 1970; not with picture, missed and left-out), and these as far as
they are known:
  bucket, name, mode, pid, command, user, host, why, meta, fencingToken
  clientId, serial  together they name the request or lock
  ageMs             for how long the lock was held, the request had waited, or the name was owned
  how               how a lock was lost or stolen, in words
  by                the clientId of the one who has stolen it
  inside            the locks inside which it was requested, each as clientId/serial
  taken             how often an owner has taken the name
  state             in the event owned: held or idle, when the name was looked at
  client            in client-came and client-went: the number of the connection
  missed, leftOut   how many

When something has changed on other machines, everything is told anew, once a second at most. A name
that another machine keeps is shown as owned by that machine, whether somebody holds it there or
not. With etcd, only the buckets that clients of this machine use are shown, and of a bucket with
more than some 10,000 locks and requests not all of other machines.")]
pub(crate) struct WatchArgs {
    /// Watch these names only.
    ///
    /// Without a name, all names are watched.
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
STATE is one of these:
  connected  the client is connected to the broker
  orphaned   the process was killed; its command goes on and keeps the locks
  sleeping   the client was connected to the broker before this one, lives, and has not come back
  elsewhere  a process of another machine; it has no AGE

With --json each line is one object. It has pid, state, held, pending, owned, buckets, agents, and
unless its state is elsewhere, ageMs. Each agent has clientId and bucket, and these as far as they
are known:
  pid, command, user, host, why, meta")]
pub(crate) struct ClientsArgs {
    /// Write one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows live in the terminal who holds what, who waits, and for how long.
#[cfg(feature = "top")]
#[derive(Debug, Args)]
#[command(after_long_help = "\
The first view is a table of all names. The name with the longest wait comes first. The columns are:
  MODE    exclusive or shared
  HOLDER  the first holder; a holder in brackets owns the name and does not hold it
  HELD    for how long the name has been held
  QUEUE   how many requests wait
  WAIT    for how long the longest of them has waited
  RATE    how often the name is granted in a second, over the last ten seconds
  MEAN    how long the requests that were granted had waited on average
  P99     99 of 100 requests that were granted had waited no longer than this
If a holder in brackets is another machine, somebody may hold the name there. MEAN and P99 are those
since the start of top. Names that nobody uses are forgotten after a minute.

Below the table are lines to paste for the holder in the chosen line. They are the same as in
'navlock query --tree': they end the hold, or let a stopped holder go on.

Keys:
  q                 quit
  ?                 help
  up, down, k, j    choose a line; also PgUp, PgDn, Home, End
  Enter             show the name: its holders, its queue in order, and what has happened
  Esc               go back; in the table, show all names again
  s, r              sort by the next column; reverse the order
  /                 show only the names that contain a text
  b                 show only the next bucket; after the last one, show all buckets
  t                 the tree: who waits for whom, as 'navlock query --tree' shows it
  c                 the clients, as 'navlock clients' shows them
  d                 the deadlocks
  n                 the table of names again
  p, space          pause: keep showing the state of this moment until the key is pressed again
  S                 steal the lock (only with --allow-steal). top names the holders, asks, and takes
                    the lock from these holders only
  ^L                draw the whole screen anew

top shows all buckets, unless --bucket or NAVLOCK_BUCKET names one that is not \"default\". The key b
shows the others. top needs a terminal. Without a terminal use 'navlock query --watch' or
'navlock watch'.")]
pub(crate) struct TopArgs {
    /// Let the key S steal locks.
    #[arg(long)]
    pub(crate) allow_steal: bool,
}
