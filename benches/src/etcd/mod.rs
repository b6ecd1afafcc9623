//! Locks between machines, on one node of etcd: once with its data on a disk, where each change
//! waits for the disk, and once in memory.
//!
//! Where two machines are enough, they are connections: each contender has clients of its own, made anew for
//! each measurement, on threads of this process. A crowd, and who keeps a name, have brokers of their own,
//! which are processes of the command. In every round each is measured once, in an order that
//! is rotated from round to round. Each measurement has a name of its own, so that nobody steps
//! over what another has left until etcd is compacted.

mod crowd;
mod kept;
mod lock_service;
mod navlock;
mod raw;
mod report;
mod server;

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

pub(crate) use self::server::{Server, Store, version};
use crate::{
    args::Args,
    environment::{self, Environment},
    harness::{Scale, Summary},
};

/// What `--only` takes.
pub(crate) const ROWS: &[&str] = &[
    "acquire",
    "loop",
    "kept",
    "kept-elsewhere",
    "handover",
    "handover-late",
    "crowd",
    "large-crowd",
    "readers",
];

/// For how long leases last that are not kept: longer than any measurement.
const TIME_TO_LIVE: Duration = Duration::from_secs(60);

/// What is measured of everybody who can do it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// A lock that is free is taken and released, and only then the next.
    Acquire,
    /// The same by a machine that keeps names, but the next is asked for while the one before is released.
    Loop,
    /// A client of a broker takes and releases a lock of a name that the broker keeps.
    Kept,
    /// A lock is taken and released of a name that another machine keeps and does not use.
    KeptElsewhere,
    /// A lock goes from one machine to another that has waited for 15 ms.
    Handover,
    /// The same, after 150 ms.
    HandoverLate,
    /// A lock goes through the hands of 100 who wait, at four brokers.
    Crowd,
    /// Of 1,000.
    LargeCrowd,
    /// 100 at four brokers are admitted at once.
    Readers,
}

/// Who takes part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Navlock,
    /// What a row cannot do without, by calls of etcd's own.
    Floor,
    LockService,
    Etcdctl,
    /// The floor where a thread of its own speaks to etcd, as navlock's does.
    Apart,
    /// Navlock, where no machine keeps names.
    Unkept,
    /// A broker that shares its locks with nobody, which is asked for each of them.
    Alone,
    /// The same where the client may own names.
    AloneOwned,
}

impl Row {
    const ALL: [Self; 9] = [
        Self::Acquire,
        Self::Loop,
        Self::Kept,
        Self::KeptElsewhere,
        Self::Handover,
        Self::HandoverLate,
        Self::Crowd,
        Self::LargeCrowd,
        Self::Readers,
    ];

    fn id(self) -> &'static str {
        ROWS[self as usize]
    }

    const fn peers(self) -> &'static [Peer] {
        match self {
            Self::Acquire => {
                &[Peer::Navlock, Peer::Floor, Peer::LockService, Peer::Etcdctl, Peer::Apart]
            }
            Self::Loop => &[Peer::Navlock, Peer::Floor, Peer::Unkept],
            Self::Kept => &[Peer::Navlock, Peer::Alone, Peer::AloneOwned],
            Self::KeptElsewhere => &[Peer::Navlock, Peer::Unkept],
            Self::Handover | Self::HandoverLate => &[Peer::Navlock, Peer::Floor, Peer::LockService],
            Self::Crowd | Self::LargeCrowd => &[Peer::Navlock, Peer::LockService, Peer::Unkept],
            // The lock service has no shared locks.
            Self::Readers => &[Peer::Navlock],
        }
    }

    /// On what etcd has its data.
    const fn stores(self) -> &'static [Store] {
        match self {
            // Etcd has no part in it.
            Self::Kept => &[Store::Memory],
            _ => &Store::ALL,
        }
    }

    /// How long who is next has waited when it is its turn, or how long a name was not used.
    const fn wait(self) -> Duration {
        match self {
            Self::HandoverLate => Duration::from_millis(150),
            _ => Duration::from_millis(15),
        }
    }

    /// How often it is done in a round, or by how many: a second for each at most, but for those
    /// who cannot do better.
    const fn count(self, peer: Peer, scale: Scale) -> usize {
        let (full, quick) = match (self, peer) {
            (Self::Acquire, Peer::Etcdctl) => (5, 1),
            (Self::Acquire | Self::Loop, _) => (300, 10),
            (Self::Kept, Peer::AloneOwned) => (200_000, 100),
            (Self::Kept, _) => (3_000, 100),
            (Self::Handover, Peer::LockService) | (Self::HandoverLate, _) => (7, 1),
            (Self::KeptElsewhere | Self::Handover, _) => (25, 2),
            (Self::Crowd | Self::Readers, _) => (100, 12),
            (Self::LargeCrowd, _) => (1_000, 24),
        };
        match scale {
            Scale::Full => full,
            Scale::Quick => quick,
        }
    }
}

/// One row on one store, by all who took part in it.
struct Case {
    row: Row,
    store: Store,
    entries: Vec<Entry>,
}

struct Entry {
    peer: Peer,
    /// Microseconds for each time, by round.
    rounds: Vec<f64>,
}

impl Case {
    fn summary(&self, peer: Peer) -> Option<Summary> {
        let entry = self.entries.iter().find(|entry| entry.peer == peer)?;
        Some(Summary::of(entry.rounds.clone()))
    }

    /// The median of what navlock takes, as a multiple of what another does in the same round: the machine is not as
    /// fast in each.
    fn ratio(&self, peer: Peer) -> Option<f64> {
        let of = |peer| self.entries.iter().find(|entry| entry.peer == peer);
        let pairs = of(Peer::Navlock)?.rounds.iter().zip(&of(peer)?.rounds);
        Some(Summary::of(pairs.map(|(own, other)| own / other).collect()).median)
    }
}

/// Where a measurement is made.
struct Place<'a> {
    endpoint: &'a str,
    /// That nobody has used before.
    name: String,
    wait: Duration,
    count: usize,
}

/// Measures what is asked for: the report, for people and for docs/figures.md.
///
/// # Errors
///
/// If there is no etcd here, or somebody could not do its part.
pub(crate) fn run(args: &Args) -> Result<(String, String), String> {
    let mut environment = Environment::look();
    let mut versions = environment::versions(&["navlock-etcd", "navlock-etcd-client"]);
    versions.push(server::version()?);
    let servers = Store::ALL.map(Server::start);
    let mut cases = Vec::new();
    for row in Row::ALL.into_iter().filter(|row| args.wants(row.id())) {
        for server in &servers {
            let server = server.as_ref().map_err(Clone::clone)?;
            if row.stores().contains(&server.store()) {
                cases.push(measure_row(row, server, args)?);
            }
        }
    }
    environment.look_again();
    let stores = servers.iter().flatten().map(Server::describe).collect();
    let about = report::About {
        environment: environment.describe(&versions),
        stores,
        rounds: args.rounds,
        scale: args.scale,
    };
    Ok((report::text(&cases, &about), report::markdown(&cases, &about)))
}

fn measure_row(row: Row, server: &Server, args: &Args) -> Result<Case, String> {
    let mut entries: Vec<_> =
        row.peers().iter().map(|&peer| Entry { peer, rounds: Vec::new() }).collect();
    let store = server.store();
    for round in 0..args.rounds {
        eprintln!("{}, {}: round {} of {}", row.id(), store.as_str(), round + 1, args.rounds);
        for turn in 0..entries.len() {
            let index = (round + turn) % entries.len();
            let entry = &mut entries[index];
            let micros = measure(row, entry.peer, server, args.scale)
                .map_err(|error| format!("{}: {}: {error}", row.id(), entry.peer.as_str()))?;
            entry.rounds.push(micros);
        }
    }
    Ok(Case { row, store, entries })
}

/// One round of one contender.
fn measure(row: Row, peer: Peer, server: &Server, scale: Scale) -> Result<f64, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let place = Place {
        endpoint: server.endpoint(),
        // As long as names usually are.
        name: format!("documents/{}/body", NEXT.fetch_add(1, Ordering::Relaxed)),
        wait: row.wait(),
        count: row.count(peer, scale),
    };
    match (row, peer) {
        (Row::Acquire, Peer::Navlock) => navlock::acquire(&place),
        (Row::Acquire, Peer::Floor) => raw::acquire(&place, true),
        (_, Peer::Apart) => raw::acquire_apart(&place),
        (Row::Loop, Peer::Navlock) => navlock::acquire_in_a_loop(&place, kept::TAKEN),
        (Row::Loop, Peer::Unkept) => navlock::acquire_in_a_loop(&place, 0),
        (Row::Loop, Peer::Floor) => raw::acquire(&place, false),
        (Row::Kept, Peer::Navlock) => kept::here(&place),
        (Row::KeptElsewhere, Peer::Navlock) => kept::elsewhere(&place, true),
        (Row::Crowd | Row::LargeCrowd, Peer::Unkept) => crowd::navlock(&place, false, false),
        (_, Peer::Unkept) => kept::elsewhere(&place, false),
        (_, Peer::Alone) => kept::alone(&place, false),
        (_, Peer::AloneOwned) => kept::alone(&place, true),
        (Row::Acquire, Peer::LockService) => lock_service::acquire(&place),
        (_, Peer::Etcdctl) => lock_service::command(&place),
        (Row::Handover | Row::HandoverLate, Peer::Navlock) => navlock::handover(&place),
        (Row::Handover | Row::HandoverLate, Peer::LockService) => lock_service::handover(&place),
        (_, Peer::Floor) => raw::handover(&place),
        (Row::Crowd | Row::LargeCrowd, Peer::Navlock) => crowd::navlock(&place, false, true),
        (_, Peer::LockService) => crowd::lock_service(&place),
        (Row::Readers, Peer::Navlock) => crowd::navlock(&place, true, true),
    }
}

impl Peer {
    const ALL: [Self; 8] = [
        Self::Navlock,
        Self::Floor,
        Self::LockService,
        Self::Etcdctl,
        Self::Apart,
        Self::Unkept,
        Self::Alone,
        Self::AloneOwned,
    ];

    /// How many of them have a column; the others share one.
    const COLUMNS: usize = 4;

    const fn as_str(self) -> &'static str {
        match self {
            Self::Navlock => "navlock",
            Self::Floor => "floor",
            Self::LockService => "lock service",
            Self::Etcdctl => "`etcdctl lock`",
            Self::Apart => "floor by a thread of its own",
            Self::Unkept => "navlock that keeps no names",
            Self::Alone => "broker without etcd",
            Self::AloneOwned => "broker without etcd, a name that its client owns",
        }
    }
}

/// What those who speak to etcd by themselves have in common: an executor for each.
pub(crate) fn on_a_runtime<T>(
    work: impl Future<Output = Result<T, navlock_etcd_client::Error>>,
) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(work).map_err(|error| error.to_string())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Microseconds for each of so many.
fn each(time: Duration, count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "there are some thousands at most")]
    let count = count.max(1) as f64;
    micros(time) / count
}

fn median(samples: Vec<f64>) -> f64 {
    Summary::of(samples).median
}
