//! What a process has from whoever has started it, and does not keep. Here a program has what its starter gives it on
//! purpose: what it opens is inherited only where that is said, and limits are those of a job.

use crate::socket::Listener;

/// Puts away what a broker has from its starter: nothing here.
pub fn leave(_: bool) {}

/// What this process makes is its user's alone by the directories that it makes it in.
pub fn keep_files_private() {}

/// There are no signals here that a starter could have ignored.
pub fn reset_signals() {}

/// Nobody passes a socket here.
///
/// # Errors
///
/// None here.
pub fn close_inherited() -> Result<Option<Listener>, String> {
    Ok(None)
}
