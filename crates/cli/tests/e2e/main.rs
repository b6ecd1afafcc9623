//! The built `navlock`, its processes and its broker.
//!
//! What is for Unix alone tests by `sh`, by signals and by files of the kernel. What is not is also run on Windows, where
//! a test may say of itself that it needs one of these. What it takes of either system is in [`system`].

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]
#![cfg_attr(not(unix), expect(dead_code, reason = "some helpers are for tests of Unix alone"))]

#[cfg(unix)]
mod book;
#[cfg(unix)]
mod broker;
#[cfg(unix)]
mod crowd;
mod daemon;
#[cfg(unix)]
mod deadlock;
mod death;
#[cfg(unix)]
mod doctor;
#[cfg(all(unix, feature = "etcd"))]
mod etcd;
mod exclusion;
mod executors;
mod exit;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(unix)]
mod flock;
#[cfg(unix)]
mod forked;
#[cfg(unix)]
mod given_up;
#[cfg(unix)]
mod hoarder;
#[cfg(unix)]
mod hold;
#[cfg(unix)]
mod hostile;
#[cfg(unix)]
mod impatient;
#[cfg(unix)]
mod inherited;
#[cfg(target_os = "linux")]
mod jams;
#[cfg(unix)]
mod kills;
mod locking;
#[cfg(unix)]
mod logs;
mod looking;
#[cfg(unix)]
mod lost;
mod manual;
mod names;
#[cfg(unix)]
mod owned;
#[cfg(all(target_os = "linux", feature = "top"))]
mod picture;
mod query;
#[cfg(unix)]
mod removed;
#[cfg(unix)]
mod restart;
mod sandbox;
#[cfg(unix)]
mod settings;
#[cfg(target_os = "linux")]
mod shortage;
#[cfg(unix)]
mod signals;
#[cfg(unix)]
mod surroundings;
mod system;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(all(target_os = "linux", feature = "top"))]
mod top;
mod wait;
#[cfg(all(unix, feature = "web"))]
mod web;
#[cfg(unix)]
mod words;
mod worker;
