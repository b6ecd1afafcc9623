//! The place of `broker` on systems where processes cannot be pinned to a CPU as on Linux.

use crate::args::Args;

pub(crate) const ROWS: &[&str] =
    &["acquire", "shared", "first", "recall", "handover", "query", "query-idle", "kill", "memory"];
pub(crate) const PARTICIPANT: &str = "participant";

const WHY: &str = "processes are pinned to CPUs here, which this program can do on Linux only";

pub(crate) fn run(_: &Args) -> Result<(String, String), String> {
    Err(WHY.to_owned())
}

pub(crate) fn take_part(_: impl Iterator<Item = String>) -> Result<(), String> {
    Err(WHY.to_owned())
}
