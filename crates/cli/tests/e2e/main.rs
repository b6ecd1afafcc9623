//! The built `navlock`, its processes and its broker.
//!
//! Some modules are for Unix alone: they test by `sh`, by signals and by files of the kernel. The others also
//! run on Windows, where a single test may say that it needs one of these. What tests need of either system
//! is in [`system`]. The comment above each module for Unix alone says what the module needs of Unix:
//! `cargo xtask windows` prints it.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]
#![cfg_attr(not(unix), expect(dead_code, reason = "some helpers are for tests of Unix alone"))]
#![cfg_attr(
    not(target_os = "linux"),
    allow(unused_imports, reason = "some tests of a module are for Linux alone")
)]

// Scripts for `sh`, and sessions for bash.
#[cfg(unix)]
mod book;
// Scripts for `sh`, links, and what `/proc` says of a broker.
#[cfg(unix)]
mod broker;
// Somebody who is stopped, and goes on.
#[cfg(unix)]
mod crowd;
mod daemon;
// Scripts for `sh`, and named pipes in folders.
#[cfg(unix)]
mod deadlock;
mod death;
mod doctor;
// Machines that are stopped and cut off by signals and scripts.
#[cfg(all(unix, feature = "etcd"))]
mod etcd;
mod exclusion;
mod executors;
mod exit;
// A library that is loaded before that of C.
#[cfg(target_os = "linux")]
mod faults;
// Scripts for `sh`, and flock(1).
#[cfg(unix)]
mod flock;
// A process that is forked.
#[cfg(unix)]
mod forked;
// Somebody who is stopped, and goes on.
#[cfg(unix)]
mod given_up;
mod hold;
// Sockets of Unix, by which a client speaks by hand, and users.
#[cfg(unix)]
mod hostile;
// A broker that is stopped, and goes on.
#[cfg(unix)]
mod impatient;
// Scripts for `sh`, and what `/proc` says of processes.
#[cfg(target_os = "linux")]
mod inside;
// Scripts for `sh`, and what they have their commands inherit.
#[cfg(unix)]
mod inherited;
// Processes that are stopped, and what `/proc` says of them.
#[cfg(target_os = "linux")]
mod jams;
// Witnesses by flock(2), and what `/proc` says of brokers.
#[cfg(unix)]
mod kills;
mod locking;
// Sockets of Unix, by which nonsense is talked, modes of files, and signals.
#[cfg(unix)]
mod logs;
mod looking;
// Scripts for `sh` that are told to end, and do not.
#[cfg(unix)]
mod lost;
mod manual;
mod names;
// Processes that are forked, and pipes of Unix between them.
#[cfg(target_os = "linux")]
mod order;
// Names that a client owns, for which there is no memory to be shared.
#[cfg(unix)]
mod owned;
// A terminal.
#[cfg(all(target_os = "linux", feature = "top"))]
mod picture;
// A server that is not there on Windows, and signals that end it.
#[cfg(all(unix, feature = "postgres"))]
mod postgres;
// A script for `sh`, in a folder that it removes.
#[cfg(unix)]
mod project;
mod query;
// Files that are removed while somebody has them open.
#[cfg(unix)]
mod removed;
// Scripts for `sh`, and flock(1).
#[cfg(target_os = "linux")]
mod replaced;
mod restart;
mod sandbox;
mod settings;
// Scripts for `sh`.
#[cfg(unix)]
mod several;
// Limits of processes, and disks without room.
#[cfg(target_os = "linux")]
mod shortage;
// Signals.
#[cfg(unix)]
mod signals;
// What `/proc` says that a command has inherited.
#[cfg(unix)]
mod slow_exit;
// Stopping a process.
#[cfg(unix)]
mod stopped;
// Scripts for `sh`, and what `/proc` says of a broker.
#[cfg(unix)]
mod surroundings;
mod system;
// A terminal.
#[cfg(target_os = "linux")]
mod terminal;
// Signals, and the processes of a shell.
#[cfg(target_os = "linux")]
mod told;
// A terminal.
#[cfg(all(target_os = "linux", feature = "top"))]
mod top;
// Users, who are other ones for the kernel.
#[cfg(target_os = "linux")]
mod users;
mod wait;
// Sockets of Unix that a browser's page is opened by.
#[cfg(all(unix, feature = "web"))]
mod web;
mod words;
mod worker;
