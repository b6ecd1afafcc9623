//! `navlock-benches etcd-scale`: what a machine costs while others hold many names, what a `navlock run`
//! costs etcd, what many idle machines cost etcd, and how many locks etcd can do for how many machines.
//!
//! For the first, others hold a number of names in etcd, by keys as navlock writes them. Then a machine
//! joins, whose client holds one name. Its broker is measured while nothing else happens, while others take
//! and release their names, and while its own client takes and releases names. For the rest see [`runs`],
//! [`machines`] and [`pairs`].

#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]

mod goal;
mod machines;
mod metrics;
mod pairs;
mod part;
mod runs;

use std::{
    fmt::Write as _,
    io::{Read, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use navlock::LockManager;
use navlock_etcd_client::{Client, PutRequest, Txn, TxnOp};

pub(crate) use self::runs::{COUNT, count};
use self::{
    goal::Goal,
    part::{Part, cpu, failed, machine_here, mebibytes, memory},
};
use crate::{
    args::Args,
    environment::{Environment, versions},
    etcd::{Server, Store, on_a_runtime},
    harness::Scale,
    machine::Machine,
    report::{collect, number, thousands},
};

pub(crate) const ROWS: [&str; 4] = ["names", "runs", "machines", "pairs"];

/// How many names others hold.
const NAMES: [usize; 4] = [0, 10_000, 100_000, 1_000_000];

/// How many keys a transaction writes.
const AT_ONCE: usize = 120;

/// How long the leases last under which others hold: longer than the whole measurement.
const TIME_TO_LIVE: i64 = 3600;

/// How often others take and release a name in a second.
const PAIRS: u32 = 200;

/// How often the machine's own client takes and releases a name.
const TAKEN: u32 = 200;

/// The most memory that a broker may have, in MiB, and the largest share of a CPU that it may use while
/// nothing happens, in percent.
const MEMORY: f64 = 15.0;
const IDLE: f64 = 0.2;

/// What is measured while others hold so many names.
struct Figures {
    names: usize,
    /// Memory of the broker's process.
    bytes: u64,
    /// Shares of a CPU.
    idle: f64,
    busy: f64,
    /// Bytes that the machine was sent for each name that others took and released, without those that it is
    /// sent in the same time while nobody does.
    told: f64,
    /// For each free name that its client took and released: bytes, and microseconds.
    taken: f64,
    time: f64,
}

/// The report, for people and for docs/figures.md.
///
/// # Errors
///
/// What cannot be started or connected to.
pub(crate) fn run(args: &Args) -> Result<(String, String), String> {
    let mut environment = Environment::look();
    let parts: [fn(Scale) -> Result<Part, String>; 4] =
        [names, runs::measure, machines::measure, pairs::measure];
    let (mut text, mut markdown) = (String::new(), String::new());
    for (row, part) in ROWS.into_iter().zip(parts).filter(|(row, _)| args.wants(row)) {
        let (said, written) = part(args.scale).map_err(|why| format!("{row}: {why}"))?;
        for (all, part) in [(&mut text, said), (&mut markdown, written)] {
            all.push_str(&part);
            all.push('\n');
        }
    }
    environment.look_again();
    let etcd = crate::etcd::version().unwrap_or_default();
    let with: Vec<String> = [etcd].into_iter().chain(versions(&["tonic"])).collect();
    let about = environment.describe(&with);
    let measured = format!("Measured with `cargo xtask bench etcd-scale`: {about}\n");
    Ok((text + &about + "\n", markdown + &measured))
}

fn names(scale: Scale) -> Result<Part, String> {
    let names = if scale == Scale::Quick { &NAMES[..2] } else { &NAMES[..] };
    let while_idle = Duration::from_secs(if scale == Scale::Quick { 1 } else { 30 });
    let mut all = Vec::new();
    for &names in names {
        let server = Server::start(Store::Memory)?;
        fill(server.endpoint(), names)?;
        all.push(measure(server.endpoint(), names, while_idle)?);
    }
    let goals = all.last().map(goals).unwrap_or_default();
    let text = collect(|out| {
        all.iter().try_for_each(|of| {
            writeln!(
                out,
                "{:>9} names: {:>6.1} MiB, {:.2} % CPU idle, {:.2} % while others take {PAIRS} a second; \
                 {:>7} bytes for each of theirs, {:>7} bytes and {:>7} us for each of ours",
                of.names,
                mebibytes(of.bytes),
                of.idle * 100.0,
                of.busy * 100.0,
                number(of.told),
                number(of.taken),
                number(of.time)
            )
        })?;
        out.write_str(&goal::text(&goals))
    });
    let markdown = collect(|out| {
        writeln!(
            out,
            "A machine whose client holds one name, beside names that others hold in the same bucket: the memory of \
             its broker's process; that one's share of a CPU while nothing happens and while others take and release \
             {PAIRS} names a second; what etcd sends it for each of those, beside what it sends it in the same time \
             while nobody takes anything, and for each free name that its client takes and releases, and how long \
             that takes. Etcd of one node, with its data in memory. The goals are those of the most names.\n"
        )?;
        writeln!(
            out,
            "| names of others | memory | CPU, idle | CPU, others busy | for each of theirs | for each of its own | \
             take and release |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        for of in &all {
            writeln!(
                out,
                "| {} | {:.1} MiB | {:.2} % | {:.2} % | {} bytes | {} bytes | {} µs |",
                thousands(of.names),
                mebibytes(of.bytes),
                of.idle * 100.0,
                of.busy * 100.0,
                number(of.told),
                number(of.taken),
                number(of.time)
            )?;
        }
        write!(out, "\n{}", goal::markdown(&goals))
    });
    Ok((text, markdown))
}

/// The goals for these figures, whatever the number of names.
fn goals(of: &Figures) -> Vec<Goal> {
    vec![
        Goal { what: "MiB of memory", most: MEMORY, measured: mebibytes(of.bytes) },
        Goal { what: "% of a CPU, idle", most: IDLE, measured: of.idle * 100.0 },
        // A keepalive may fall into one of the two times and not into the other.
        Goal {
            what: "bytes for each lock of others, in whole bytes",
            most: 0.0,
            measured: of.told.round(),
        },
    ]
}

/// Has others hold so many names.
fn fill(endpoint: &str, names: usize) -> Result<(), String> {
    eprintln!("etcd-scale: {names} names");
    on_a_runtime(async {
        let mut client = Client::connect([endpoint], None).await?;
        let lease = client.lease_grant(TIME_TO_LIVE).await?.id;
        let value = vec![3_u8; 120];
        let all: Vec<usize> = (0..names).collect();
        for some in all.chunks(AT_ONCE) {
            let puts = some.iter().map(|nth| {
                let key = format!("navlock/6/bench/l/theirs-{nth:07}/h/x/{:032x}-{nth:08x}", 1);
                TxnOp::Put(PutRequest::new(key, &*value, lease))
            });
            client.txn(Txn::new().and_then(puts.collect::<Vec<_>>())).await?;
        }
        Ok(())
    })
}

fn measure(endpoint: &str, names: usize, while_idle: Duration) -> Result<Figures, String> {
    let cable = Cable::to(endpoint)?;
    // The first machine is measured; for the other, the bytes that it is sent are counted.
    let machines =
        [Machine::on_etcd(endpoint, Some(0))?, Machine::on_etcd(&cable.endpoint, Some(0))?];
    let [measured, counted] = machines.each_ref().map(client);
    let (measured, counted) = (measured?, counted?);
    let pid = machines[0].pid();
    let lock =
        |locks: &LockManager, name: &str| locks.lock(name.to_owned()).blocking().map_err(failed);
    let held = (lock(&measured, "measured")?, lock(&counted, "counted")?);
    // Their first work is over by then.
    thread::sleep(Duration::from_secs(2));
    let before = cable.received();
    let idle = during(pid, || {
        thread::sleep(while_idle);
        Ok(())
    })?;
    let told_idle = cable.received() - before;
    let bytes = memory(pid)?;
    let others = machine_here(endpoint)?;
    let (mut pairs, before) = (0, cable.received());
    let busy = during(pid, || {
        let since = Instant::now();
        while since.elapsed() < while_idle {
            drop(others.lock(format!("wanders-{}", pairs % 1000)).blocking().map_err(failed)?);
            pairs += 1;
            let due = Duration::from_secs(1) / PAIRS * pairs;
            thread::sleep(due.saturating_sub(since.elapsed()));
        }
        Ok(())
    })?;
    let told = (cable.received() - before).saturating_sub(told_idle) as f64 / f64::from(pairs);
    let before = cable.received();
    take(&counted)?;
    let taken = (cable.received() - before) as f64 / f64::from(TAKEN);
    let time = take(&measured)?;
    drop(held);
    Ok(Figures { names, bytes, idle, busy, told, taken, time })
}

/// A client of a machine's broker.
fn client(machine: &Machine) -> Result<LockManager, String> {
    Ok(machine.client(false)?.lock_manager("bench"))
}

/// Takes and releases free names: microseconds for each.
fn take(locks: &LockManager) -> Result<f64, String> {
    let since = Instant::now();
    for nth in 0..TAKEN {
        drop(locks.lock(format!("of {:?}: {nth}", locks.client_id())).blocking().map_err(failed)?);
    }
    Ok(since.elapsed().as_secs_f64() * 1e6 / f64::from(TAKEN))
}

/// The share of a CPU that a process takes while `act` runs.
fn during(pid: u32, act: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    let (since, before) = (Instant::now(), cpu(pid)?);
    act()?;
    Ok((cpu(pid)? - before) / since.elapsed().as_secs_f64())
}

/// A proxy that counts the bytes that come back through it.
struct Cable {
    endpoint: String,
    received: Arc<AtomicU64>,
}

impl Cable {
    fn to(endpoint: &str) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let here = listener.local_addr().map_err(failed)?.to_string();
        let (there, received) = (endpoint.to_owned(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&received);
        thread::spawn(move || {
            for client in listener.incoming() {
                let both = client.and_then(|client| Ok((client, TcpStream::connect(&there)?)));
                let Ok((client, server)) = both else { return };
                // Otherwise small answers would wait for each other.
                let (Ok(()), Ok(())) = (client.set_nodelay(true), server.set_nodelay(true)) else {
                    return;
                };
                let copies = (client.try_clone(), server.try_clone());
                let (Ok(from_client), Ok(from_server)) = copies else { return };
                let counted = Arc::clone(&counted);
                thread::spawn(move || pass(from_client, server, &AtomicU64::new(0)));
                thread::spawn(move || pass(from_server, client, &counted));
            }
        });
        Ok(Self { endpoint: here, received })
    }

    fn received(&self) -> u64 {
        self.received.load(SeqCst)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
    let mut bytes = [0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        count.fetch_add(length as u64, SeqCst);
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    // The connection may be closed by now.
    let _ = to.shutdown(Shutdown::Both);
}
