//! A daemon's report on itself.

use navlock_wire::{LogState, SessionEnd};

use crate::Numbers;

/// A daemon's report on itself: what has happened since it began.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The numbers that the daemon has counted.
    pub numbers: Numbers,
    /// Why the latest sessions have ended, the latest one first. Usual ends do not push unusual ends
    /// out of this list.
    pub ends: Vec<SessionEnd>,
    /// Where the daemon logs, if its program says so.
    pub log: Option<LogState>,
    /// The daemon's PID namespace, as [`pid_namespace`](crate::pid_namespace) returns it in the
    /// daemon. The daemon sees the numbers of its clients' processes in this namespace. `None` if
    /// the namespace is not known.
    pub pid_namespace: Option<u64>,
}

impl Report {
    pub(crate) fn from_wire(report: navlock_wire::Report) -> Self {
        let numbers = Numbers::from_wire(&report);
        Self { numbers, ends: report.ends, log: report.log, pid_namespace: report.pids }
    }

    pub(crate) fn into_wire(self) -> navlock_wire::Report {
        let Self { numbers, ends, log, pid_namespace: pids } = self;
        navlock_wire::Report { ends, log, pids, ..numbers.to_wire() }
    }
}
