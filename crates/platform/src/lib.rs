//! All that navlock needs of operating systems. Only this crate names them, which
//! `xtask/tests/platform_seam.rs` asserts, and it contains nothing else of navlock.
//!
//! This is not a general library: it has only what navlock calls, and changes with navlock.
//!
//! ```
//! use std::fs::File;
//!
//! use navlock_platform::file_lock::{try_exclusive, try_shared, unlock};
//!
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("lock");
//! let (ours, theirs) = (File::create(&path)?, File::open(&path)?);
//!
//! // `flock` on Unix, and `LockFileEx` on Windows.
//! assert!(try_exclusive(&ours)?);
//! assert!(!try_shared(&theirs)?);
//! unlock(&ours)?;
//! assert!(try_shared(&theirs)?);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Each module is one concern. The crate has two folders, `unix` (Linux, macOS and the like) and `windows`.
//! Each of them has a module for every concern, with the same names in both. A dash in the table means that
//! the system has nothing for the concern; then the module says so.
//!
//! | module | what | on Unix | on Windows |
//! |---|---|---|---|
//! | [`clock`] | clocks, among them one that goes on while the machine is suspended | `clock_gettime`, `timerfd`, `/proc/PID/timens_offsets` | `QueryPerformanceCounter` |
//! | [`descriptor`] | how much a process has open, and how much it may | descriptors, `RLIMIT_NOFILE` | handles, without a limit |
//! | [`file`](mod@file) | files that other users must not read, write or replace | owner, mode, `O_NOFOLLOW`, inodes | owner, access list, reparse points, file indexes |
//! | [`file_lock`] | locks on files, which end with the last process that has the file open | `flock` | `LockFileEx`, and a named event where the lock is inherited |
//! | [`library`] | libraries that a process has loaded | `dlopen` | module handles |
//! | [`machine`] | which boot of the machine this is, and whether other processes see the same files | `/proc` | - |
//! | [`peer`] | who is at the other end of a socket | `SO_PEERCRED`, `SO_PEERPIDFD`; `LOCAL_PEERCRED` | the process of either end of a pipe, and its token |
//! | [`process`] | whether processes live, who started whom, signals to them | pidfd, `/proc`; kqueue | process handles, Toolhelp, console events |
//! | [`readiness`] | which of many sockets and processes have something | `epoll`, `kqueue` | asking all of them |
//! | [`shortage`] | which resource has run out, from an error | `errno` | the last error |
//! | [`socket`] | sockets at paths | Unix domain sockets | named pipes, and a file with the pipe's name |
//! | [`surroundings`] | the limits and settings that a process runs with, for people | limits, `/proc/self` | priority class |
//! | [`thread`] | priorities of threads | `nice` | priority |
//! | [`user`] | who we are, and where our own directory is | uid, the password file | SID, known folders |
//! | [`wait`] | waiting for the first of several sockets, processes, clocks and the like | `poll`, `epoll` | `WaitForMultipleObjects`, the thread pool |
//! | [`watch`] | hearing which files are removed from a directory | `inotify` | - |
//!
//! Only for the command, by the feature `command`:
//!
//! | module | what | on Unix | on Windows |
//! |---|---|---|---|
//! | `family` | a command with all that it has started | subreaper, `/proc` | a job object |
//! | `inheritance` | putting away what a process has inherited from the process that started it | umask, limits, scheduling, descriptors | - |
//! | `service_manager` | telling a service manager the state of the process | `sd_notify` | - |
//! | `shell` | the shell that runs a command line, and lines for people to paste into it | `$SHELL`, `kill` | `%ComSpec%`, `taskkill` |
//! | `signal` | signals: catching them, passing them on, restoring how they were handled | `sigaction` | console events |
//! | `terminal` | how large a terminal is, and who is in front of it | `TIOCGWINSZ` | the console's buffer |
//!
//! One exception: memory that processes share is in `crates/delegation/src/linux`, where it is used.

#![deny(unsafe_code)]

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod found;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use crate::unix::*;
#[cfg(windows)]
pub use crate::windows::*;
