//! A command with all that it has started: who works under its lock.
//!
//! Not its process group: to have one of its own it would have to leave the group of the terminal, and a
//! command in a pipe like `navlock run db make | less` would lose the keyboard. Besides, shells with job
//! control put each of their jobs into another group.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(target_os = "linux")]
mod processes;

#[cfg(target_os = "linux")]
pub use self::linux::Family;
#[cfg(not(target_os = "linux"))]
pub use self::other::Family;
