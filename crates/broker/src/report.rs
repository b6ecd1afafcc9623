//! A daemon's report on itself.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

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

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionEnd {
    /// When the session ended.
    pub at: SystemTime,
    /// The client's process, if it is known.
    pub pid: Option<u32>,
    /// Why the session ended, as a text for people.
    pub why: String,
}

/// Where a daemon logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogState {
    /// The file, or `None` if the daemon logs to its error stream.
    pub file: Option<PathBuf>,
    /// What is logged.
    pub filter: String,
}

impl Report {
    pub(crate) fn from_wire(report: navlock_wire::Report) -> Self {
        let (numbers, now) = (Numbers::from_wire(&report), SystemTime::now());
        let ends = report.ends.into_iter().map(|end| SessionEnd {
            at: now.checked_sub(Duration::from_millis(end.ago)).unwrap_or(now),
            pid: end.pid,
            why: end.why,
        });
        let log = report.log;
        let log = log.map(|log| LogState { file: log.file.map(Into::into), filter: log.filter });
        Self { numbers, ends: ends.collect(), log, pid_namespace: report.pids }
    }

    pub(crate) fn to_wire(&self) -> navlock_wire::Report {
        let ends = self.ends.iter().map(|end| {
            // The time is zero if the clock was turned back after the end.
            let ago = end.at.elapsed().unwrap_or_default().as_millis();
            navlock_wire::SessionEnd {
                ago: u64::try_from(ago).unwrap_or(u64::MAX),
                pid: end.pid,
                why: end.why.clone(),
            }
        });
        let log = self.log.as_ref().map(|log| navlock_wire::LogState {
            file: log.file.as_ref().map(|file| file.display().to_string()),
            filter: log.filter.clone(),
        });
        let (ends, pids) = (ends.collect(), self.pid_namespace);
        navlock_wire::Report { ends, log, pids, ..self.numbers.to_wire() }
    }
}
