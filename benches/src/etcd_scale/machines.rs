//! What many machines cost one etcd while they hold something and nothing happens. Each machine is a
//! connection as a broker has it, with a lease, a lock and a watch. All of them are in this process.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use super::{
    goal::{self, Goal},
    metrics::Metrics,
    part::{Part, cpu, machine_here, mebibytes, memory},
};
use crate::{
    etcd::{Server, Store},
    harness::Scale,
    report::{collect, number, thousands},
};

/// The numbers of machines.
const MACHINES: [usize; 4] = [10, 100, 300, 1000];

/// How long is measured: several times the longest pause between two things that a machine does by itself.
const WHILE: Duration = Duration::from_secs(60);

/// The most keepalives a second that a thousand machines may send.
const KEEPALIVES: f64 = 350.0;

struct Figures {
    machines: usize,
    /// Per second.
    keepalives: f64,
    calls: f64,
    /// Etcd's share of a CPU.
    cpu: f64,
    bytes: u64,
    watches: f64,
}

pub(super) fn measure(scale: Scale) -> Result<Part, String> {
    let (machines, during) = match scale {
        Scale::Quick => (&MACHINES[..1], Duration::from_secs(2)),
        Scale::Full => (&MACHINES[..], WHILE),
    };
    let mut all = Vec::new();
    for &machines in machines {
        eprintln!("etcd-scale: {machines} machines");
        all.push(of(machines, during)?);
    }
    let goals = all.last().map(|of| Goal {
        what: "keepalives a second for each thousand machines, of the most that were measured",
        most: KEEPALIVES,
        measured: of.keepalives * 1000.0 / of.machines as f64,
    });
    let goals = goals.as_slice();
    let text = collect(|out| {
        all.iter().try_for_each(|of| {
            writeln!(
                out,
                "{:>5} machines: {:>6} keepalives and {:>6} other calls a second, {:.1} % CPU and {:.0} MiB of \
                 etcd, {:.0} watches",
                of.machines,
                number(of.keepalives),
                number(of.calls),
                of.cpu * 100.0,
                mebibytes(of.bytes),
                of.watches
            )
        })?;
        out.write_str(&goal::text(goals))
    });
    let markdown = collect(|out| {
        writeln!(
            out,
            "What machines cost etcd that hold one lock each and do nothing, with a time to live of 10 s: connections \
             as brokers have them, all in one process on the same machine, for {} s. Etcd of one node, with its \
             data in memory.\n",
            during.as_secs()
        )?;
        writeln!(
            out,
            "| machines | keepalives a second | other calls a second | CPU of etcd | memory of etcd | watches |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|")?;
        for of in &all {
            writeln!(
                out,
                "| {} | {} | {} | {:.1} % | {:.0} MiB | {:.0} |",
                thousands(of.machines),
                number(of.keepalives),
                number(of.calls),
                of.cpu * 100.0,
                mebibytes(of.bytes),
                of.watches
            )?;
        }
        write!(out, "\n{}", goal::markdown(goals))
    });
    Ok((text, markdown))
}

fn of(machines: usize, during: Duration) -> Result<Figures, String> {
    let server = Server::start(Store::Memory)?;
    let pid = u32::try_from(server.pid()).unwrap_or_default();
    let mut all = Vec::with_capacity(machines);
    for nth in 0..machines {
        let locks = machine_here(server.endpoint())?;
        let held = locks.lock(format!("machine {nth}")).blocking().map_err(super::failed)?;
        all.push((locks, held));
    }
    let (before, began, since) = (Metrics::of(server.endpoint())?, cpu(pid)?, Instant::now());
    std::thread::sleep(during);
    let seconds = since.elapsed().as_secs_f64();
    let (after, ended) = (Metrics::of(server.endpoint())?, cpu(pid)?);
    if let Some((_, held)) = all.iter().find(|(_, held)| held.is_lost()) {
        return Err(format!("{held:?} was lost"));
    }
    Ok(Figures {
        machines,
        keepalives: (after.keepalives() - before.keepalives()) / seconds,
        calls: (after.calls() - before.calls()) / seconds,
        cpu: (ended - began) / seconds,
        bytes: memory(pid)?,
        watches: after.watches(),
    })
}
