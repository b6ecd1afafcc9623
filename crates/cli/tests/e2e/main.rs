//! The built `navlock`, its processes and its broker.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod book;
mod broker;
mod crowd;
mod daemon;
mod deadlock;
mod death;
mod doctor;
#[cfg(feature = "etcd")]
mod etcd;
mod exclusion;
mod executors;
mod exit;
#[cfg(target_os = "linux")]
mod faults;
mod flock;
mod forked;
mod given_up;
mod hold;
mod hostile;
mod inherited;
#[cfg(target_os = "linux")]
mod jams;
mod kills;
mod locking;
mod logs;
mod looking;
mod lost;
mod manual;
mod names;
mod owned;
#[cfg(all(target_os = "linux", feature = "top"))]
mod picture;
mod query;
mod removed;
mod restart;
mod sandbox;
mod settings;
#[cfg(target_os = "linux")]
mod shortage;
mod signals;
mod surroundings;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(all(target_os = "linux", feature = "top"))]
mod top;
mod wait;
#[cfg(feature = "web")]
mod web;
mod words;
mod worker;
