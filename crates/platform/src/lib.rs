//! What navlock needs of an operating system, and nothing else of navlock: this crate names systems,
//! and no other does. `xtask/tests/platform_seam.rs` asserts it.
//!
//! Each module is one concern. A system has a half of this crate, a folder with a module for each
//! concern, in which all have the same names: `unix`, with Linux, macOS and the like, is the one that
//! there is. Another system's half says the same with its own means.
//!
//! | module | what | on Unix |
//! |---|---|---|
//! | [`clock`] | clocks of the machine, also one that goes on while it is suspended | `clock_gettime`, `timerfd` |
//! | [`descriptor`] | what a process has open, and how much that may be | descriptors, `RLIMIT_NOFILE` |
//! | [`file`](mod@file) | files that others must not read, write or have put in our way | owner, mode, `O_NOFOLLOW`, inodes |
//! | [`file_lock`] | locks on files, which end with the last process that has the file open | `flock` |
//! | [`machine`] | which run of the machine this is, and who sees what of it | `/proc` |
//! | [`peer`] | who is at the other end of a socket | `SO_PEERCRED`, `SO_PEERPIDFD` |
//! | [`process`] | whether processes live, who started whom, signals to them | pidfd, `/proc` |
//! | [`shortage`] | of what there is no more | `errno` |
//! | [`socket`] | sockets at paths | Unix domain sockets |
//! | [`surroundings`] | under what a process runs, for people | limits, `/proc/self` |
//! | [`thread`] | whose turn it is for a CPU | `nice` |
//! | [`user`] | who we are, and where our own directory is | uid, the password file |
//! | [`wait`] | waiting for one of several of these | `poll`, `epoll` |
//! | [`watch`] | word of what is removed from a directory | `inotify` |
//!
//! Only for the command, by the feature `command`:
//!
//! | module | what | on Unix |
//! |---|---|---|
//! | `family` | a command with all that it has started | subreaper, `/proc` |
//! | `inheritance` | what a process has from its starter, and does not keep | umask, limits, scheduling, descriptors |
//! | `service_manager` | telling a service manager how we are | `sd_notify` |
//! | `signal` | signals: caught, passed on, as they were | `sigaction` |
//! | `terminal` | how large a terminal is, and who is in front of it | `TIOCGWINSZ` |
//!
//! Memory that processes share has a module of its own, where it is used: `crates/delegation/src/linux`.

#![deny(unsafe_code)]

#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub use crate::unix::*;
