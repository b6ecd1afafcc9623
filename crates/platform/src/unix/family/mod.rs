//! A command with all processes that it has started, which work under its lock.
//!
//! This is not the command's process group. To have a group of its own, the command would have to leave the
//! terminal's foreground group, and a command in a pipe like `navlock run db make | less` would lose the
//! keyboard. Besides, shells with job control put each of their jobs into another group.

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
