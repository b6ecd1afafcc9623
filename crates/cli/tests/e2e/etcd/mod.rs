//! Machines, each with a broker of its own, that share their locks by an etcd.

pub(crate) mod buckets;
mod crowd;
mod cycles;
mod doctor;
mod evict;
mod full;
// Names of machines that are of one namespace alone, and a terminal.
#[cfg(all(target_os = "linux", feature = "top"))]
mod jams;
mod killed;
mod lost;
mod outage;
mod reset;
mod restart;
#[path = "../../../../etcd/tests/server/mod.rs"]
mod server;
mod sessions;
mod sharing;
mod wrong;

use self::server::{namespace, shared};
use crate::sandbox::{Sandbox, eventually};

/// Machines that share their locks with each other and with nobody else.
fn machines<const N: usize>() -> [Sandbox; N] {
    machines_with("15")
}

/// Such machines, whose leases last for so many seconds.
fn machines_with<const N: usize>(time_to_live: &str) -> [Sandbox; N] {
    machines_of(&shared().endpoint(), &namespace(), time_to_live)
}

/// Such machines, on this etcd and in this namespace.
fn machines_of<const N: usize>(
    endpoint: &str,
    namespace: &str,
    time_to_live: &str,
) -> [Sandbox; N] {
    let keep = server::keeps().map(|taken| format!("keep-names = {taken}\n")).unwrap_or_default();
    let settings = format!(
        "[stores.main]\netcd = [\"{endpoint}\"]\nnamespace = \"{namespace}\"\ntime-to-live = {time_to_live}\n{keep}"
    );
    [(); N].map(|()| Sandbox::with_settings(&settings))
}

/// Takes a name until the machine owns it, while nobody else takes it.
fn own(machine: &Sandbox, name: &str) {
    // The machine owns the name once it counts the tokens of the grants itself.
    eventually("it stays the machine's", || {
        let token = machine.written(&["run", name, "sh", "-c", "echo $NAVLOCK_FENCE"]);
        token.trim().parse::<u64>().unwrap() & 0xf_ffff > 0
    });
}
