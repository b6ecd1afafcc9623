//! Keys of locks, taken apart, and what the keys of one name say together.

use std::collections::BTreeMap;

use navlock_etcd_client::KeyValue;
use navlock_machines::keys::FORMAT;

/// The keys of one name: its locks, its waiting requests, and the machine that owns it, each by the last part
/// of its key.
#[derive(Clone, Default)]
pub(super) struct Name {
    pub(super) held: BTreeMap<String, One>,
    pub(super) queue: BTreeMap<String, One>,
    pub(super) owners: BTreeMap<String, One>,
}

/// A lock, or a request that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct One {
    pub(super) is_exclusive: bool,
    /// The revision that made the key.
    pub(super) made: i64,
    /// The revision that gives the request its place in the queue.
    pub(super) asked: i64,
    /// The token, if a machine has granted the lock by itself.
    pub(super) told: Option<u64>,
    /// Whether the machine that owns the name owns it for one run of requests only.
    pub(super) is_run: bool,
}

/// A key of a lock, taken apart.
pub(super) struct Key {
    pub(super) name: String,
    pub(super) phase: Phase,
    pub(super) is_exclusive: bool,
    pub(super) request: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Held,
    Queued,
    Owned,
}

impl Key {
    pub(super) fn of(key: &[u8]) -> Option<Self> {
        let parts: Vec<_> = std::str::from_utf8(key).ok()?.split('/').collect();
        let ["navlock", FORMAT, _, "l", name, phase @ ("h" | "q"), mode @ ("x" | "s"), request] =
            parts[..]
        else {
            return None;
        };
        let (phase, request) = match (phase, request.strip_prefix("o-")) {
            ("q", _) => (Phase::Queued, request),
            (_, None) => (Phase::Held, request),
            (_, Some(machine)) => (Phase::Owned, machine),
        };
        let (name, request) = (name.to_owned(), request.to_owned());
        Some(Self { name, phase, is_exclusive: mode == "x", request })
    }

    pub(super) fn one(&self, kv: &KeyValue) -> One {
        let (place, mark) = place_and_mark(&kv.value).unwrap_or_default();
        let mark = Some(mark).filter(|mark| *mark != 0);
        let is_run = self.phase == Phase::Owned && place == 1;
        let made = kv.made;
        let queued = mark.filter(|_| self.phase == Phase::Queued);
        let asked = queued.and_then(|mark| i64::try_from(mark).ok()).unwrap_or(made);
        let told = mark.filter(|_| self.phase == Phase::Held);
        One { is_exclusive: self.is_exclusive, made, asked, told, is_run }
    }
}

/// The place and the mark in a value, whose format is that of `crates/machines/src/values.rs`: a version, a client
/// id, two times, and these.
fn place_and_mark(value: &[u8]) -> Option<(u64, u64)> {
    type Front<'a> = (u8, &'a [u8], u64, u64, u64, u64);
    let ((.., place, mark), _) = postcard::take_from_bytes::<Front<'_>>(value).ok()?;
    Some((place, mark))
}

impl Name {
    pub(super) fn all(&mut self, phase: Phase) -> &mut BTreeMap<String, One> {
        match phase {
            Phase::Held => &mut self.held,
            Phase::Queued => &mut self.queue,
            Phase::Owned => &mut self.owners,
        }
    }

    /// Whether two hold the name that must not hold it at the same time. A lock that the owning machine has
    /// granted may stand beside the key by which that machine owns the name.
    pub(super) fn is_shared_wrongly(&self) -> bool {
        let exclusive = self.held.values().any(|one| one.is_exclusive);
        let is_its = |request: &String, machine: &String| {
            request.strip_prefix(machine.as_str()).is_some_and(|rest| rest.starts_with('-'))
        };
        let mut owners = self.owners.keys();
        exclusive && self.held.len() > 1
            || self.owners.len() > 1
            || owners.any(|machine| !self.held.keys().all(|request| is_its(request, machine)))
    }
}
