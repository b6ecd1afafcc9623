//! The memory that a broker shares with each of its clients.

#![deny(unsafe_code)]

mod atomic;
#[cfg(all(not(target_os = "linux"), not(shuttle)))]
mod elsewhere;
#[cfg(not(shuttle))]
mod forked;
#[cfg(not(shuttle))]
mod header;
#[cfg(not(shuttle))]
mod keeper;
#[cfg(all(target_os = "linux", not(shuttle)))]
#[allow(unsafe_code, reason = "memory is mapped there, and a signal handled")]
mod linux;
#[cfg(not(shuttle))]
mod owner;
mod slot;
mod word;

#[cfg(all(not(target_os = "linux"), not(shuttle)))]
use elsewhere as system;
#[cfg(all(target_os = "linux", not(shuttle)))]
use linux as system;

#[cfg(not(shuttle))]
pub use crate::{forked::Unforked, keeper::KeeperMap, owner::OwnerMap};
pub use crate::{
    slot::{Description, Slot},
    word::{GivenBack, Look, Recalled, Released, Word},
};
