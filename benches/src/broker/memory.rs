//! The memory that the daemon keeps for the locks that are held.

use std::{ffi::OsStr, fs, io, path::Path};

use super::{
    layout::{Layout, Seat},
    participant::{Participant, wait_for_line, write_line},
    peer::{Asks, Peer, navlock_manager},
};
use crate::harness::Scale;

/// How many clients hold the locks.
const CLIENTS: usize = 4;

/// Resident memory in bytes.
pub(super) struct Memory {
    pub(super) held: usize,
    pub(super) empty: f64,
    pub(super) per_lock: f64,
    /// What each guard takes in its client.
    pub(super) per_guard: f64,
    /// What the daemon keeps in all, when the clients are gone.
    pub(super) left: f64,
}

/// Has a few clients hold many locks of a daemon.
pub(super) fn measure(scale: Scale) -> Result<Memory, String> {
    let each = scale.count(100_000).div_ceil(CLIENTS);
    eprintln!("memory: {} held", CLIENTS * each);
    measure_held(each).map_err(|error| format!("memory: {error}"))
}

fn measure_held(each: usize) -> io::Result<Memory> {
    let directory = tempfile::tempdir()?;
    let place = directory.path().join("sock");
    let cpu = Layout::OneCpu.cpu(Seat::Server)?;
    let daemon = Peer::Navlock.start_ours(cpu, &place)?;
    let mut clients = Vec::with_capacity(CLIENTS);
    for client in 0..CLIENTS {
        let (from, count) = ((client * each).to_string(), each.to_string());
        let words: [&OsStr; 4] =
            ["keep".as_ref(), place.as_os_str(), from.as_ref(), count.as_ref()];
        let mut participant = Participant::ours(cpu, &words)?;
        participant.read_until("ready")?;
        clients.push(participant);
    }
    let empty = resident(daemon.pid())?;
    let mut in_clients = 0.0;
    for client in &mut clients {
        client.write_line("go")?;
        in_clients += client.read_numbers()?[0];
    }
    let full = resident(daemon.pid())?;
    drop(clients);
    // A client's locks are freed together. So when this process gets one lock of each client, all are free.
    let locks = navlock_manager(&place, Asks::IfItMust)?;
    for client in 0..CLIENTS {
        drop(locks.lock(name(client * each)).blocking().map_err(io::Error::other)?);
    }
    let left = resident(daemon.pid())?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let held = (CLIENTS * each) as f64;
    Ok(Memory {
        held: CLIENTS * each,
        empty,
        per_lock: (full - empty) / held,
        per_guard: in_clients / held,
        left: left - empty,
    })
}

/// The role of a client, which says by how much its memory has grown.
pub(super) fn keep(place: &Path, from: usize, count: usize) -> io::Result<()> {
    let locks = navlock_manager(place, Asks::IfItMust)?;
    let mut guards = Vec::with_capacity(count);
    write_line("ready");
    wait_for_line()?;
    let empty = resident(std::process::id())?;
    for number in from..from + count {
        guards.push(locks.lock(name(number)).blocking().map_err(io::Error::other)?);
    }
    write_line(&(resident(std::process::id())? - empty).to_string());
    wait_for_line()
}

fn name(number: usize) -> String {
    format!("documents/{number:06}/body")
}

/// The memory of a process that is resident, in bytes.
fn resident(pid: u32) -> io::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    let kibibytes: f64 = kibibytes.ok_or_else(|| io::Error::other("/proc has no VmRSS"))?;
    Ok(kibibytes * 1024.0)
}
