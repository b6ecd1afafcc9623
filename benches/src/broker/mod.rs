//! Locks between the processes of one machine.
//!
//! All participants are processes of their own, started and ended by this one, which only waits meanwhile:
//! see [`participant`]. Each is pinned to a CPU ([`layout`]), because a wake-up that crosses CPUs costs more
//! than anything that is measured here, and without pinning chance would decide about it.
//!
//! In every round each peer is measured once, in an order that is rotated from round to round. The servers
//! run all the time; the clients are new in each round.

mod case;
mod crowd;
mod layout;
mod measure;
mod memory;
mod participant;
mod peer;
mod report;
mod roles;
mod row;
mod servers;

use std::io;

use self::{
    case::{Case, Entry},
    layout::Layout,
    peer::Peer,
    row::Row,
    servers::Servers,
};
use crate::{args::Args, environment::Environment, harness::Scale};

/// What `--only` takes.
pub(crate) const ROWS: &[&str] = &[
    "acquire",
    "shared",
    "first",
    "recall",
    "handover",
    "query",
    "query-idle",
    "kill",
    "command",
    "crowd",
    "memory",
];

/// The first argument of a process that takes part.
pub(crate) use self::participant::PARTICIPANT;

/// Measures what is asked for. Returns the report, for people and for docs/figures.md.
///
/// # Errors
///
/// If a process could not be started, or did not do its part in good time.
pub(crate) fn run(args: &Args) -> Result<(String, String), String> {
    let mut environment = Environment::look();
    let cpus = layout::available().map_err(|error| format!("which CPUs there are: {error}"))?;
    let mut peers = Peer::all_here();
    let mut cases = Vec::new();
    let rows: Vec<_> = Row::ALL.into_iter().filter(|row| args.wants(row.id())).collect();
    for layout in Layout::ALL {
        if cpus.len() < layout.cpus() {
            eprintln!("{}: skipped, there is one CPU only", layout.as_str());
        } else if !rows.is_empty() {
            let servers = Servers::start(layout, &mut peers)?;
            for &row in &rows {
                cases.push(measure_row(row, &servers, args)?);
            }
        }
    }
    let shares = if args.wants("crowd") && cpus.len() > 1 {
        // It has not to find a median of small things.
        crowd::measure(args.rounds.div_ceil(4), args.scale)?
    } else {
        Vec::new()
    };
    let memory = if args.memory() { Some(memory::measure(args.scale)?) } else { None };
    environment.look_again();

    let mut versions = crate::environment::versions(&["navlock-broker", "tokio"]);
    versions.extend(peers.iter().filter_map(|peer| peer.version()));
    let about = report::About { environment: environment.describe(&versions), rounds: args.rounds };
    Ok((
        report::text(&cases, &shares, memory.as_ref(), &about),
        report::markdown(&cases, &shares, memory.as_ref(), &about),
    ))
}

fn measure_row(row: Row, servers: &Servers, args: &Args) -> Result<Case, String> {
    let layout = servers.layout();
    let mut entries: Vec<_> = servers
        .peers()
        .filter(|peer| peer.takes_part_in(row))
        .map(|peer| Entry { peer, rounds: Vec::with_capacity(args.rounds) })
        .collect();
    for round in 0..args.rounds {
        eprintln!("{}, {}: round {} of {}", row.id(), layout.as_str(), round + 1, args.rounds);
        for turn in 0..entries.len() {
            let index = (round + turn) % entries.len();
            let entry = &mut entries[index];
            let times = count(row, entry.peer, layout, args.scale);
            entry.rounds.push(measure::round(row, entry.peer, servers, times)?);
        }
    }
    Ok(Case { row, layout, entries })
}

/// Does the work of a process that takes part.
///
/// # Errors
///
/// What went wrong in it.
pub(crate) fn take_part(args: impl Iterator<Item = String>) -> Result<(), String> {
    let args: Vec<_> = args.collect();
    roles::take_part(&args).map_err(|error: io::Error| {
        format!("{} {}: {error}", participant::PARTICIPANT, args.join(" "))
    })
}

/// How often a client repeats the row's work in one round, which then takes about a tenth of a second. The
/// rounds are short and many, because a machine that others use as well is busy for seconds at a time.
fn count(row: Row, peer: Peer, layout: Layout, scale: Scale) -> usize {
    let count = match (row, layout) {
        (Row::Acquire | Row::Shared, _) if peer.asks_nobody() => 200_000,
        (Row::Acquire | Row::Shared, Layout::OneCpu) => 6_000,
        (Row::Acquire | Row::Shared, Layout::TwoCpus) => 1_500,
        // These are no more names than can be owned at once.
        (Row::First, _) => 800,
        (Row::Recall, _) => 400,
        (Row::Query | Row::QueryIdle, _) => 100,
        (Row::Handover, Layout::OneCpu) => 3_000,
        (Row::Handover, Layout::TwoCpus) => 1_000,
        // These counts are small, because each of them starts a process.
        (Row::Kill, _) => 20,
        (Row::Command, _) => 50,
    };
    // Fewer handovers would be over before the second process has heard that it may begin.
    let least = if row == Row::Handover { 500 } else { 0 };
    scale.count(count).max(least)
}
