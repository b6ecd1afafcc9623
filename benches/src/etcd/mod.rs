//! Locks between machines, on one node of etcd: once with its data on a disk, where each change
//! waits for the disk, and once in memory.
//!
//! Where two machines are enough, they are connections: each peer has clients of its own, made anew for each
//! measurement, on threads of this process. A crowd, and machines that own names, have brokers of their own,
//! which are processes of the command. In every round each peer is measured once, in an order that is rotated
//! from round to round. Each measurement has a name of its own: until etcd is compacted, nobody steps over
//! what another one has left.

mod cases;
mod crowd;
mod lock_calls;
mod lock_service;
mod navlock;
mod owned;
mod raw;
mod report;
mod server;

use std::sync::atomic::{AtomicU32, Ordering};

use self::cases::{Case, Entry, Peer, Place, Row};
pub(crate) use self::{
    cases::{ROWS, on_a_runtime},
    server::{Server, Store, version},
};
use crate::{
    args::Args,
    environment::{self, Environment},
    harness::Scale,
};

/// Measures what is asked for. Returns the report, for people and for docs/figures.md.
///
/// # Errors
///
/// If there is no etcd here, or a peer could not do its part.
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
        // The name is as long as names usually are.
        name: format!("documents/{}/body", NEXT.fetch_add(1, Ordering::Relaxed)),
        wait: row.wait(),
        count: row.count(peer, scale),
    };
    match (row, peer) {
        (Row::Acquire, Peer::Navlock) => navlock::acquire(&place),
        (Row::Acquire, Peer::Floor) => raw::acquire(&place, true),
        (_, Peer::Apart) => raw::acquire_apart(&place),
        (Row::Loop, Peer::Navlock) => navlock::acquire_in_a_loop(&place, owned::TAKEN),
        (Row::Loop, Peer::NeverOwning) => navlock::acquire_in_a_loop(&place, 0),
        (Row::Loop, Peer::Floor) => raw::acquire(&place, false),
        (Row::Owned, Peer::Navlock) => owned::here(&place),
        (Row::OwnedElsewhere, Peer::Navlock) => owned::elsewhere(&place, true),
        (Row::Crowd | Row::LargeCrowd, Peer::NeverOwning) => crowd::navlock(&place, false, false),
        (_, Peer::NeverOwning) => owned::elsewhere(&place, false),
        (_, Peer::Alone) => owned::alone(&place, false),
        (_, Peer::AloneOwned) => owned::alone(&place, true),
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
