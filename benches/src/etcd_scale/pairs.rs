//! How many locks a second can be taken and released by one etcd, with how many machines and names, and how
//! unequally the names are used.
//!
//! Each machine is a connection as a broker has it, with some agents that take and release all the time. All
//! of them are in this process, beside etcd. The report shows the CPU share of both, so that one sees what
//! the limit is. The machines own no names.

use std::{
    fmt::Write as _,
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use navlock::{EtcdOptions, UserAgent, blocking::block_on};
use tokio::task::JoinSet;

use super::{
    metrics::Metrics,
    part::{Part, cpu, failed},
};
use crate::{
    etcd::{Server, Store},
    harness::{Scale, Summary},
    report::{collect, thousands},
};

/// How many agents each machine has.
const AGENTS: usize = 8;

const MACHINES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

const NAMES: [usize; 6] = [10, 100, 1000, 10_000, 100_000, 1_000_000];

/// The number of machines while the names vary, and of names while the machines vary.
const SOME_MACHINES: usize = 16;
const SOME_NAMES: usize = 10_000;

/// With unequal use, the frequency of the nth name is proportional to `n` to the power of minus this.
const ZIPF: f64 = 1.1;

/// How long to wait for a steady state, and then how long to count.
const BEFORE: Duration = Duration::from_secs(1);
const DURING: Duration = Duration::from_secs(5);

/// How the names are used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Skew {
    Uniform,
    Zipf,
}

/// One measurement.
struct Figures {
    machines: usize,
    names: usize,
    skew: Skew,
    store: Store,
    /// Pairs a second.
    pairs: f64,
    /// Shares of a CPU.
    etcd: f64,
    ours: f64,
    /// How many bytes more etcd has stored, for each pair.
    bytes: f64,
}

pub(super) fn measure(scale: Scale) -> Result<Part, String> {
    let (machines, names, during) = match scale {
        Scale::Quick => (&MACHINES[..2], &NAMES[..2], Duration::from_millis(300)),
        Scale::Full => (&MACHINES[..], &NAMES[..], DURING),
    };
    let (mut by_machines, mut by_names) = (Vec::new(), Vec::new());
    for store in Store::ALL {
        let server = Server::start(store)?;
        for &machines in machines {
            let of = Figures::of(machines, SOME_NAMES, Skew::Uniform, store);
            by_machines.push(of.measured(&server, during)?);
        }
    }
    let server = Server::start(Store::Memory)?;
    for &names in names {
        for skew in [Skew::Uniform, Skew::Zipf] {
            let of = Figures::of(SOME_MACHINES, names, skew, Store::Memory);
            by_names.push(of.measured(&server, during)?);
        }
    }
    let text = collect(|out| {
        by_machines.iter().chain(&by_names).try_for_each(|of| {
            writeln!(
                out,
                "{:>3} machines, {:>9} names, {:<8} {:<6}: {:>7} pairs a second; {:>4.0} % CPU of etcd, {:>4.0} % of \
                 the machines, {:.0} bytes stored for each",
                of.machines,
                of.names,
                of.skew.as_str(),
                of.store.as_str(),
                whole(of.pairs),
                of.etcd * 100.0,
                of.ours * 100.0,
                of.bytes
            )
        })
    });
    let markdown = collect(|out| {
        writeln!(
            out,
            "How many locks a second are taken and released, {AGENTS} agents of each machine always being at it: with \
             the share of a CPU that etcd takes, and that all machines take together, which are connections of one \
             process beside it. One node of etcd. {} names that are used alike, and etcd's data on a disk or in \
             memory:\n",
            thousands(SOME_NAMES)
        )?;
        writeln!(
            out,
            "| machines | disk | CPU of etcd | of machines | memory | CPU of etcd | of machines |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        let (disk, memory) = by_machines.split_at(by_machines.len() / 2);
        for (disk, memory) in disk.iter().zip(memory) {
            writeln!(out, "| {} | {} | {} |", disk.machines, disk.cells(), memory.cells())?;
        }
        writeln!(
            out,
            "\n{SOME_MACHINES} machines, and etcd's data in memory; names that are used alike, and those of which \
             the nth is used in proportion to 1 / n^{ZIPF}:\n"
        )?;
        writeln!(
            out,
            "| names | uniform | CPU of etcd | of machines | Zipf {ZIPF} | CPU of etcd | of machines |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        for two in by_names.chunks_exact(2) {
            let [uniform, zipf] = two else { continue };
            let names = thousands(uniform.names);
            writeln!(out, "| {names} | {} | {} |", uniform.cells(), zipf.cells())?;
        }
        let bytes = Summary::of(by_machines.iter().map(|of| of.bytes).collect());
        writeln!(
            out,
            "\nFor each lock that is taken and released etcd stores {:.0} bytes (the median of the first of these \
             tables), until it is compacted.",
            bytes.median
        )
    });
    Ok((text, markdown))
}

impl Skew {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "Zipf",
        }
    }

    /// The upper bound of each name's share of the numbers between 0 and 1.
    fn bounds(self, names: usize) -> Arc<[f64]> {
        let weight = |nth: usize| match self {
            Self::Uniform => 1.0,
            Self::Zipf => (nth as f64 + 1.0).powf(-ZIPF),
        };
        let mut sum = 0.0;
        let mut bounds: Vec<f64> = (0..names)
            .map(|nth| {
                sum += weight(nth);
                sum
            })
            .collect();
        for bound in &mut bounds {
            *bound /= sum;
        }
        bounds.into()
    }
}

impl Figures {
    const fn of(machines: usize, names: usize, skew: Skew, store: Store) -> Self {
        Self { machines, names, skew, store, pairs: 0.0, etcd: 0.0, ours: 0.0, bytes: 0.0 }
    }

    fn cells(&self) -> String {
        format!("{} | {:.0} % | {:.0} %", whole(self.pairs), self.etcd * 100.0, self.ours * 100.0)
    }

    fn measured(mut self, server: &Server, during: Duration) -> Result<Self, String> {
        eprintln!(
            "etcd-scale: {} machines, {} names, {}, {}",
            self.machines,
            self.names,
            self.skew.as_str(),
            self.store.as_str()
        );
        let bounds = self.skew.bounds(self.names);
        // Etcd has to be asked for each lock: few machines that use few names would own the names.
        let options = EtcdOptions::new([server.endpoint()]).keep_names(0);
        let connect = || block_on(navlock::etcd(options.clone()));
        let machines: Vec<UserAgent> =
            (0..self.machines).map(|_| connect()).collect::<Result<_, _>>().map_err(failed)?;
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().map_err(failed)?;
        let (pairs, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        runtime.block_on(async {
            let mut agents = JoinSet::new();
            for (nth, machine) in machines.iter().cycle().take(AGENTS * self.machines).enumerate() {
                // All machines use one bucket.
                let locks = machine.lock_manager("bench");
                let (bounds, pairs, is_over) =
                    (Arc::clone(&bounds), Arc::clone(&pairs), Arc::clone(&is_over));
                let mut dice = Dice(nth as u64 + 1);
                agents.spawn(async move {
                    while !is_over.load(Relaxed) {
                        let at = dice.below_one();
                        let name = bounds.partition_point(|bound| *bound < at);
                        drop(locks.lock(format!("documents/{name}/body")).await?);
                        pairs.fetch_add(1, Relaxed);
                    }
                    Ok::<_, navlock::Error>(())
                });
            }
            let (etcd, ours) = (u32::try_from(server.pid()).unwrap_or_default(), process::id());
            tokio::time::sleep(BEFORE.min(during)).await;
            let stored = Metrics::of(server.endpoint())?.stored();
            let before = (pairs.load(Relaxed), cpu(etcd)?, cpu(ours)?, Instant::now());
            tokio::time::sleep(during).await;
            let seconds = before.3.elapsed().as_secs_f64();
            self.pairs = (pairs.load(Relaxed) - before.0) as f64 / seconds;
            self.etcd = (cpu(etcd)? - before.1) / seconds;
            self.ours = (cpu(ours)? - before.2) / seconds;
            let more = Metrics::of(server.endpoint())?.stored() - stored;
            self.bytes = more / (pairs.load(Relaxed) - before.0).max(1) as f64;
            is_over.store(true, Relaxed);
            while let Some(ended) = agents.join_next().await {
                ended.map_err(failed)?.map_err(failed)?;
            }
            Ok::<_, String>(self)
        })
    }
}

/// A rate without the digits in which two runs differ.
fn whole(number: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are neither negative nor large"
    )]
    let number = number.round() as usize;
    thousands(number)
}

/// Random numbers that are the same each time (splitmix64).
struct Dice(u64);

impl Dice {
    fn below_one(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
