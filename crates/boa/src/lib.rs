#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod adopt;
mod agent;
mod dom;
mod driver;
mod engine;
mod home;
mod homes;
mod interfaces;
mod jobs;
mod locks;

pub use navlock;

pub use crate::locks::{Locks, LocksExtension, register};
