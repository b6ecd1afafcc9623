//! The user of this process, and the directories that are this user's own.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::unistd::{Gid, Group, Uid, User};

/// What tells a user from all others of the machine.
pub type UserId = u32;

/// What tells a group of users from all others of the machine.
pub type GroupId = u32;

/// Whether files can be shared with a group of users.
pub const HAS_GROUPS: bool = cfg!(target_os = "linux");

/// The user who may do anything.
pub const ROOT: UserId = 0;

/// The user of this process.
pub fn ours() -> UserId {
    rustix::process::geteuid().as_raw()
}

/// The user's own directory: that of the password file and not `$HOME`, which a process has from
/// whoever happened to start it.
pub fn home() -> Option<PathBuf> {
    let user = User::from_uid(Uid::effective()).ok().flatten();
    user.map(|user| user.dir).filter(|home| home.is_absolute())
}

/// The user's name. `None` if the system knows none.
pub fn name() -> Option<String> {
    name_of(ours())
}

/// A number that stands for this user.
pub fn number(user: UserId) -> u32 {
    user
}

/// The user for whom this number stands.
pub fn of_number(number: u32) -> UserId {
    number
}

/// The name of this user. `None` if the system knows none.
pub fn name_of(user: UserId) -> Option<String> {
    User::from_uid(Uid::from_raw(user)).ok().flatten().map(|user| user.name)
}

/// The group of this name, or of this number.
pub fn group(name: &str) -> Option<GroupId> {
    let group = Group::from_name(name).ok().flatten();
    group.map(|group| group.gid.as_raw()).or_else(|| name.parse().ok())
}

/// The name of this group, or else its number.
pub fn group_name(group: GroupId) -> String {
    let known = Group::from_gid(Gid::from_raw(group)).ok().flatten();
    known.map_or_else(|| group.to_string(), |group| group.name)
}

/// Whether this user belongs to the group, even if this process began before that was so.
pub fn is_assigned(group: GroupId) -> bool {
    let group = Group::from_gid(Gid::from_raw(group)).ok().flatten();
    name().zip(group).is_some_and(|(name, group)| group.mem.contains(&name))
}

/// The name of the machine.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A directory of this user alone, for what lives until the machine is restarted. It may not be there yet,
/// and others may have made it. Its path follows from the user and this name, and from nothing else.
pub fn runtime_directory(name: &str) -> PathBuf {
    runtime_directory_of(ours(), name, Path::new("/run"))
}

/// The same for this user, on a system that has this directory for what lives until it is restarted.
///
/// Root's own is one that nobody else can make first. That does not change while the system runs:
/// `run` is there from the start, and only root can change its owner or mode.
fn runtime_directory_of(user: UserId, name: &str, run: &Path) -> PathBuf {
    let is_roots_alone = || {
        fs::symlink_metadata(run)
            .is_ok_and(|found| found.is_dir() && found.uid() == ROOT && found.mode() & 0o022 == 0)
    };
    if cfg!(target_os = "linux") && user == ROOT && is_roots_alone() {
        run.join(name)
    } else {
        PathBuf::from(format!("/tmp/{name}-{user}"))
    }
}

/// A directory of this user for what outlives the machine's restart. Nobody need have made it yet.
/// `None` for a user without a home.
pub fn state_directory(name: &str) -> Option<PathBuf> {
    if ours() == ROOT {
        return Some(Path::new("/var/lib").join(name));
    }
    let home = home().filter(|home| home.is_dir());
    home.map(|home| home.join(".local/state").join(name))
}

/// The file of this user's settings. It need not be there. `None` for a user without a home.
pub fn settings(name: &str) -> Option<PathBuf> {
    home().map(|home| home.join(".config").join(name).join("config.toml"))
}

/// The file of the settings of all users of the machine, which only root can make.
pub fn settings_of_all(name: &str) -> PathBuf {
    PathBuf::from(format!("/etc/{name}.toml"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn directory(mode: u32) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
        directory
    }

    #[test]
    fn the_directory_of_a_user_follows_from_the_uid_alone() {
        // Whether or not there is a /run/user/UID.
        let run = directory(0o755);
        let of_user = runtime_directory_of(1000, "navlock", run.path());
        assert_eq!(of_user, Path::new("/tmp/navlock-1000"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn that_of_root_is_where_nobody_else_can_make_it_first() {
        if ours() != ROOT {
            println!("skipped: only root has directories of root");
            return;
        }
        let of_root = |run: &Path| runtime_directory_of(ROOT, "navlock", run);
        for (mode, is_safe) in [(0o755, true), (0o700, true), (0o777, false), (0o775, false)] {
            let run = directory(mode);
            let is_there = of_root(run.path()) == run.path().join("navlock");
            assert_eq!(is_there, is_safe, "{mode:o}");
        }
        assert_eq!(of_root(Path::new("/none")), Path::new("/tmp/navlock-0"));
    }
}
