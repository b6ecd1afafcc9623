//! Looks for programs and users on this machine.

use std::{env, fs, path::PathBuf};

use super::super::participant::User;

/// A program, on `PATH` or in one of these directories.
pub(super) fn find(program: &str, elsewhere: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(elsewhere.iter().cloned());
    directories.map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// The user of this name.
pub(super) fn user(name: &str) -> Option<User> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let ours = fields.next()? == name;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        ours.then_some(User { uid, gid })
    })
}
