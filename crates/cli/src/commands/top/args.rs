//! The arguments of `navlock top`.

use clap::Args;

/// Shows live in the terminal who holds what, who waits, and for how long.
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
since the start of top. Names that nobody uses are shown for a minute.

Below the table are lines to paste for the holder in the chosen line. They are the same as in
'navlock query --tree': they end the hold, or let a stopped holder go on.

Keys:
  q                 quit
  ?                 help
  up, down, k, j    choose a line; also PgUp, PgDn, Home, End
  Enter             show the name: its holders, its queue in order, and its past holders
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
    pub(super) allow_steal: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples};

    impl Examples for TopArgs {
        const LINES: &'static [&'static str] = &["top {}"];

        const FLAGS: &'static [Flag<Self>] = &[(&["--allow-steal"], |top| top.allow_steal)];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<TopArgs>();
    }
}
