//! `--on-lost`.

use clap::ValueEnum;

/// What to do with a command whose lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    #[value(name = "term")]
    Terminate,
    Kill,
    Ignore,
}
