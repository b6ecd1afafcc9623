//! What is measured of which peer, and what the peers' measurements have in common.

use std::time::Duration;

use super::server::Store;
use crate::harness::{Scale, Summary};

/// What `--only` takes.
pub(crate) const ROWS: &[&str] = &[
    "acquire",
    "loop",
    "owned",
    "owned-elsewhere",
    "handover",
    "handover-late",
    "crowd",
    "large-crowd",
    "readers",
];

/// How long leases last that nobody renews: longer than any measurement.
pub(super) const TIME_TO_LIVE: Duration = Duration::from_secs(60);

/// What is measured of every peer that can do it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// A free lock is taken and released, and only then the next.
    Acquire,
    /// The same by a machine that owns names, but the next lock is requested while the one before is
    /// released.
    Loop,
    /// A client of a broker takes and releases a lock of a name that the broker owns.
    Owned,
    /// A lock is taken and released of a name that another machine owns and does not use.
    OwnedElsewhere,
    /// A lock goes from one machine to another that has waited for 15 ms.
    Handover,
    /// The same, after 150 ms.
    HandoverLate,
    /// A lock goes through the hands of 100 who wait, at four brokers.
    Crowd,
    /// A lock goes through the hands of 1,000 who wait.
    LargeCrowd,
    /// 100 at four brokers are admitted at once.
    Readers,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Navlock,
    /// The work that a row cannot do without, by calls of etcd's own.
    Floor,
    LockService,
    Etcdctl,
    /// The floor if a thread of its own speaks to etcd, as navlock's does.
    Apart,
    /// Navlock, if no machine owns names.
    NeverOwning,
    /// A broker that shares its locks with nobody, and is asked for each of them.
    Alone,
    /// The same, if the client may own names.
    AloneOwned,
}

impl Row {
    pub(super) const ALL: [Self; 9] = [
        Self::Acquire,
        Self::Loop,
        Self::Owned,
        Self::OwnedElsewhere,
        Self::Handover,
        Self::HandoverLate,
        Self::Crowd,
        Self::LargeCrowd,
        Self::Readers,
    ];

    pub(super) fn id(self) -> &'static str {
        ROWS[self as usize]
    }

    pub(super) const fn peers(self) -> &'static [Peer] {
        match self {
            Self::Acquire => {
                &[Peer::Navlock, Peer::Floor, Peer::LockService, Peer::Etcdctl, Peer::Apart]
            }
            Self::Loop => &[Peer::Navlock, Peer::Floor, Peer::NeverOwning],
            Self::Owned => &[Peer::Navlock, Peer::Alone, Peer::AloneOwned],
            Self::OwnedElsewhere => &[Peer::Navlock, Peer::NeverOwning],
            Self::Handover | Self::HandoverLate => &[Peer::Navlock, Peer::Floor, Peer::LockService],
            Self::Crowd | Self::LargeCrowd => {
                &[Peer::Navlock, Peer::LockService, Peer::NeverOwning]
            }
            // The lock service has no shared locks.
            Self::Readers => &[Peer::Navlock],
        }
    }

    /// The kinds of storage for etcd's data.
    pub(super) const fn stores(self) -> &'static [Store] {
        match self {
            // Etcd takes no part in this row.
            Self::Owned => &[Store::Memory],
            _ => &Store::ALL,
        }
    }

    /// How long the next one has waited when its turn comes, or how long a name was not used.
    pub(super) const fn wait(self) -> Duration {
        match self {
            Self::HandoverLate => Duration::from_millis(150),
            _ => Duration::from_millis(15),
        }
    }

    /// How often the row is done in a round, or by how many. Each round takes a second at most, unless the
    /// peer cannot do better.
    pub(super) const fn count(self, peer: Peer, scale: Scale) -> usize {
        let (full, quick) = match (self, peer) {
            (Self::Acquire, Peer::Etcdctl) => (5, 1),
            (Self::Acquire | Self::Loop, _) => (300, 10),
            (Self::Owned, Peer::AloneOwned) => (200_000, 100),
            (Self::Owned, _) => (3_000, 100),
            (Self::Handover, Peer::LockService) | (Self::HandoverLate, _) => (7, 1),
            (Self::OwnedElsewhere | Self::Handover, _) => (25, 2),
            (Self::Crowd | Self::Readers, _) => (100, 12),
            (Self::LargeCrowd, _) => (1_000, 24),
        };
        match scale {
            Scale::Full => full,
            Scale::Quick => quick,
        }
    }
}

impl Peer {
    pub(super) const ALL: [Self; 8] = [
        Self::Navlock,
        Self::Floor,
        Self::LockService,
        Self::Etcdctl,
        Self::Apart,
        Self::NeverOwning,
        Self::Alone,
        Self::AloneOwned,
    ];

    /// How many peers have a column; the others share one.
    pub(super) const COLUMNS: usize = 4;

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Navlock => "navlock",
            Self::Floor => "floor",
            Self::LockService => "lock service",
            Self::Etcdctl => "`etcdctl lock`",
            Self::Apart => "floor by a thread of its own",
            Self::NeverOwning => "navlock that owns no names",
            Self::Alone => "broker without etcd",
            Self::AloneOwned => "broker without etcd, a name that its client owns",
        }
    }
}

/// Where a measurement is made.
pub(super) struct Place<'a> {
    pub(super) endpoint: &'a str,
    /// A name that nobody has used before.
    pub(super) name: String,
    pub(super) wait: Duration,
    pub(super) count: usize,
}

/// One row on one store, with all peers that took part in it.
pub(super) struct Case {
    pub(super) row: Row,
    pub(super) store: Store,
    pub(super) entries: Vec<Entry>,
}

pub(super) struct Entry {
    pub(super) peer: Peer,
    /// Microseconds for each repetition, by round.
    pub(super) rounds: Vec<f64>,
}

impl Case {
    pub(super) fn summary(&self, peer: Peer) -> Option<Summary> {
        let entry = self.entries.iter().find(|entry| entry.peer == peer)?;
        Some(Summary::of(entry.rounds.clone()))
    }

    /// The median of navlock's time as a multiple of another peer's time in the same round: the machine is
    /// not as fast in each round.
    pub(super) fn ratio(&self, peer: Peer) -> Option<f64> {
        let of = |peer| self.entries.iter().find(|entry| entry.peer == peer);
        let pairs = of(Peer::Navlock)?.rounds.iter().zip(&of(peer)?.rounds);
        Some(Summary::of(pairs.map(|(own, other)| own / other).collect()).median)
    }
}

/// Runs calls of etcd in an executor of their own.
pub(crate) fn on_a_runtime<T>(
    work: impl Future<Output = Result<T, navlock_etcd_client::Error>>,
) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(work).map_err(|error| error.to_string())
}

pub(super) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Microseconds for each of `count` repetitions.
pub(super) fn each(time: Duration, count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "there are some thousands at most")]
    let count = count.max(1) as f64;
    micros(time) / count
}

pub(super) fn median(samples: Vec<f64>) -> f64 {
    Summary::of(samples).median
}
