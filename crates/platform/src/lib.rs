//! What navlock needs of an operating system, and nothing else of navlock: this crate names systems,
//! and no other does. `xtask/tests/platform_seam.rs` asserts it.
//!
//! Each module is one concern. A system has a half of this crate, a folder with a module for each
//! concern, in which all have the same names: `unix`, with Linux, macOS and the like, and `windows`. A dash
//! stands where a system has nothing for it, and the module says so.
//!
//! | module | what | on Unix | on Windows |
//! |---|---|---|---|
//! | [`clock`] | clocks of the machine, also one that goes on while it is suspended | `clock_gettime`, `timerfd` | `QueryPerformanceCounter` |
//! | [`descriptor`] | what a process has open, and how much that may be | descriptors, `RLIMIT_NOFILE` | handles, without a limit |
//! | [`file`](mod@file) | files that others must not read, write or have put in our way | owner, mode, `O_NOFOLLOW`, inodes | owner, access list, reparse points, file indexes |
//! | [`file_lock`] | locks on files, which end with the last process that has the file open | `flock` | `LockFileEx`, and a named event where it is inherited |
//! | [`library`] | libraries that a process has loaded | `dlopen` | module handles |
//! | [`machine`] | which run of the machine this is, and who sees what of it | `/proc` | - |
//! | [`peer`] | who is at the other end of a socket | `SO_PEERCRED`, `SO_PEERPIDFD`; `LOCAL_PEERCRED` | the process of either end of a pipe, and its token |
//! | [`process`] | whether processes live, who started whom, signals to them | pidfd, `/proc`; kqueue | process handles, Toolhelp, console events |
//! | [`shortage`] | of what there is no more | `errno` | the last error |
//! | [`socket`] | sockets at paths | Unix domain sockets | named pipes, and a file with the pipe's name |
//! | [`surroundings`] | under what a process runs, for people | limits, `/proc/self` | priority class |
//! | [`thread`] | whose turn it is for a CPU | `nice` | priority |
//! | [`user`] | who we are, and where our own directory is | uid, the password file | SID, known folders |
//! | [`wait`] | waiting for one of several of these | `poll`, `epoll` | `WaitForMultipleObjects`, the thread pool |
//! | [`watch`] | word of what is removed from a directory | `inotify` | - |
//!
//! Only for the command, by the feature `command`:
//!
//! | module | what | on Unix | on Windows |
//! |---|---|---|---|
//! | `family` | a command with all that it has started | subreaper, `/proc` | a job object |
//! | `inheritance` | what a process has from its starter, and does not keep | umask, limits, scheduling, descriptors | - |
//! | `service_manager` | telling a service manager how we are | `sd_notify` | - |
//! | `shell` | the shell that runs a line, and lines that people paste into it | `$SHELL`, `kill` | `%ComSpec%`, `taskkill` |
//! | `signal` | signals: caught, passed on, as they were | `sigaction` | console events |
//! | `terminal` | how large a terminal is, and who is in front of it | `TIOCGWINSZ` | the console's buffer |
//!
//! Memory that processes share has a module of its own, where it is used: `crates/delegation/src/linux`.

#![deny(unsafe_code)]

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use crate::unix::*;
#[cfg(windows)]
pub use crate::windows::*;
