//! The built `navlock`, its processes and its broker.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod broker;
mod crowd;
mod daemon;
mod death;
mod doctor;
#[cfg(feature = "etcd")]
mod etcd;
mod exclusion;
mod executors;
mod exit;
mod flock;
mod forked;
mod given_up;
mod hostile;
mod inherited;
mod kills;
mod locking;
mod lost;
mod manual;
mod names;
mod owned;
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
mod wait;
mod words;
mod worker;
