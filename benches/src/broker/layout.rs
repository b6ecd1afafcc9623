//! Which process runs on which CPU.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How the processes of a row are spread over CPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    OneCpu,
    /// The server on one CPU, the first client on the other. A second client runs beside the server, so that
    /// each of two clients has its own CPU.
    TwoCpus,
}

/// What a process is in a row.
#[derive(Clone, Copy)]
pub(super) enum Seat {
    Server,
    First,
    Second,
}

impl Layout {
    pub(super) const ALL: [Self; 2] = [Self::OneCpu, Self::TwoCpus];

    pub(super) const fn cpus(self) -> usize {
        match self {
            Self::OneCpu => 1,
            Self::TwoCpus => 2,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::OneCpu => "one CPU",
            Self::TwoCpus => "two CPUs",
        }
    }

    /// The CPU of a process. The last CPUs are used, because interrupts mostly go to the first.
    pub(super) fn cpu(self, seat: Seat) -> io::Result<usize> {
        let cpus = available()?;
        let from_last = match (self, seat) {
            (Self::OneCpu, _) | (Self::TwoCpus, Seat::First) => 1,
            (Self::TwoCpus, Seat::Server | Seat::Second) => 2,
        };
        let index = cpus.len().checked_sub(from_last);
        index.map(|index| cpus[index]).ok_or_else(|| io::Error::other("too few CPUs"))
    }
}

/// The CPUs that this process may run on.
pub(super) fn available() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Has this thread, and whatever it starts from now on, run on one CPU.
pub(super) fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}
