//! Locks between the processes of one machine.
//!
//! All who take part are processes of their own, started and ended by this one, which only waits
//! meanwhile: see [`participant`]. Each is pinned to a CPU ([`layout`]), because whether a wake-up crosses
//! CPUs costs more than anything that is measured here, and would be left to chance.
//!
//! In every round each contender is measured once, in an order that is rotated from round to
//! round; the servers run all the time, and the clients are new in each round.

mod layout;
mod measure;
mod memory;
mod participant;
mod peer;
mod report;
mod servers;

use std::io;

use self::{layout::Layout, peer::Peer, servers::Servers};
use crate::{
    args::Args,
    environment::Environment,
    harness::{Scale, Summary},
};

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
    "memory",
];

/// The first word of a process that takes part.
pub(crate) use self::participant::PARTICIPANT;

/// What is measured of every peer that can do it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// One process takes and releases a lock again and again that nobody else wants.
    Acquire,
    /// The same, shared.
    Shared,
    /// One process takes and releases locks of names that were never taken before.
    First,
    /// Two processes take a lock alternately, and the other does not want it meanwhile.
    Recall,
    /// Two processes take the same lock in turn.
    Handover,
    /// One process asks who has what while another holds many locks.
    Query,
    /// The same when the other has released them, and may take them again.
    QueryIdle,
    /// A holder is killed while another process waits.
    Kill,
    /// A program runs a command that does nothing under a lock.
    Command,
}

impl Row {
    const ALL: [Self; 9] = [
        Self::Acquire,
        Self::Shared,
        Self::First,
        Self::Recall,
        Self::Handover,
        Self::Query,
        Self::QueryIdle,
        Self::Kill,
        Self::Command,
    ];

    const fn id(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Shared => "shared",
            Self::First => "first",
            Self::Recall => "recall",
            Self::Query => "query",
            Self::QueryIdle => "query-idle",
            Self::Handover => "handover",
            Self::Kill => "kill",
            Self::Command => "command",
        }
    }

    /// How often a client does it in one round: about a tenth of a second. The rounds are short and
    /// many, because a machine that others use as well is busy for seconds at a time.
    fn count(self, peer: Peer, layout: Layout, scale: Scale) -> usize {
        let count = match (self, layout) {
            (Self::Acquire | Self::Shared, _) if peer.asks_nobody() => 200_000,
            (Self::Acquire | Self::Shared, Layout::OneCpu) => 6_000,
            (Self::Acquire | Self::Shared, Layout::TwoCpus) => 1_500,
            // No more than can be owned at once.
            (Self::First, _) => 800,
            (Self::Recall, _) => 400,
            (Self::Query | Self::QueryIdle, _) => 100,
            (Self::Handover, Layout::OneCpu) => 3_000,
            (Self::Handover, Layout::TwoCpus) => 1_000,
            // Scaled down to 16 as the others are, and no less: each starts a process.
            (Self::Kill, _) => 20,
            (Self::Command, _) => 50,
        };
        // Fewer handovers are over before the second process has heard that it may begin.
        let least = if self == Self::Handover { 500 } else { 0 };
        scale.count(count).max(least)
    }
}

/// A row by all who took part in it.
struct Case {
    row: Row,
    layout: Layout,
    entries: Vec<Entry>,
}

/// One peer in a row.
struct Entry {
    peer: Peer,
    /// In nanoseconds, by round; several where each occurrence is timed.
    rounds: Vec<Vec<f64>>,
}

impl Entry {
    /// The medians of the rounds.
    fn summary(&self) -> Summary {
        Summary::of(self.rounds.iter().map(|round| quantile(round.clone(), 0.5)).collect())
    }

    /// Of all that was timed in all rounds.
    fn quantile(&self, share: f64) -> f64 {
        quantile(self.rounds.concat(), share)
    }
}

impl Case {
    fn entry(&self, peer: Peer) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.peer == peer)
    }

    fn median(&self, peer: Peer) -> Option<f64> {
        Some(self.entry(peer)?.summary().median)
    }
}

/// Measures what is asked for: the report, for people and for docs/figures.md.
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
    let memory = if args.memory() { Some(memory::measure(args.scale)?) } else { None };
    environment.look_again();

    let mut versions = crate::environment::versions(&["navlock-broker", "tokio"]);
    versions.extend(peers.iter().filter_map(|peer| peer.version()));
    let about = report::About { environment: environment.describe(&versions), rounds: args.rounds };
    Ok((
        report::text(&cases, memory.as_ref(), &about),
        report::markdown(&cases, memory.as_ref(), &about),
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
            let count = row.count(entry.peer, layout, args.scale);
            entry.rounds.push(measure::round(row, entry.peer, servers, count)?);
        }
    }
    Ok(Case { row, layout, entries })
}

/// What a process that takes part does.
///
/// # Errors
///
/// What went wrong in it.
pub(crate) fn take_part(args: impl Iterator<Item = String>) -> Result<(), String> {
    let args: Vec<_> = args.collect();
    participant::take_part(&args).map_err(|error: io::Error| {
        format!("{} {}: {error}", participant::PARTICIPANT, args.join(" "))
    })
}

/// The least of the samples that this share of them does not exceed.
fn quantile(mut samples: Vec<f64>, share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "there are some hundreds of samples, and the share is between 0 and 1"
    )]
    let index = (share * samples.len() as f64).ceil() as usize;
    samples[index.clamp(1, samples.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn a_quantile_is_a_sample_that_so_many_do_not_exceed() {
        let samples: Vec<f64> = (1..=200).map(f64::from).collect();
        let found = [0.0, 0.5, 0.99, 1.0].map(|share| quantile(samples.clone(), share).to_string());
        assert_eq!(found, ["1", "100", "198", "200"]);
        assert_eq!(quantile(vec![7.0], 0.5).to_string(), "7");
    }
}
