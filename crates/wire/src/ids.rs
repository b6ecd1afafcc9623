//! How messages refer to agents, clients, requests and moments.

use serde::{Deserialize, Serialize};

/// An agent, by the number that its client gave it. A number is free again after
/// [`CloseAgent`](crate::ToDaemon::CloseAgent).
pub type Agent = u32;

/// A client id's sixteen bytes.
pub type ClientId = [u8; 16];

/// A question, by the number that its client gave it.
pub type Query = u64;

/// Random bytes by which a client, and its files in the broker's directory, are known from one
/// connection to the next.
pub type ClientKey = [u8; 16];

/// A moment, in nanoseconds of the system's monotonic clock, which all processes of a machine
/// share.
pub type Moment = u64;

/// A slot of a client's map, by its index.
pub type Slot = u32;

/// A moment, in nanoseconds since the start of the machine, the time in which it was suspended
/// included: `CLOCK_BOOTTIME` on Linux.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BootTime(pub u64);
