//! Whether this process has a `/tmp` of its own.

use std::{fs, path::Path};

/// What is said to who has.
pub(crate) const WHY: &str = "this process has a /tmp of its own, as a service with PrivateTmp or a \
     container has, so its locks are not those of others on this machine; where they are to be, give \
     all one place by the key 'socket' in /etc/navlock.toml";

/// Whether what we see at this path is another file system, or another part of one, than what the
/// machine's first process sees there. `false` if that cannot be told.
pub(crate) fn is_secluded(path: &Path) -> bool {
    let mounted = |process: &str| {
        let mounts = fs::read_to_string(format!("/proc/{process}/mountinfo")).ok()?;
        mounted_at(path, &mounts)
    };
    match (mounted("self"), mounted("1")) {
        (Some(ours), Some(theirs)) => ours != theirs,
        _ => false,
    }
}

/// What is mounted at this path, or above it: a device, what part of it, and where.
fn mounted_at(path: &Path, mounts: &str) -> Option<(String, String, String)> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let (device, part, at) = (fields.next()?, fields.next()?, fields.next()?);
        path.starts_with(at).then(|| (device.to_owned(), part.to_owned(), at.to_owned()))
    });
    // Of two at one place the later one is seen.
    mounts.max_by_key(|(_, _, at)| at.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                           30 22 0:25 / /tmp rw - tmpfs tmpfs rw\n\
                           31 22 0:26 / /tmpfiles rw - tmpfs tmpfs rw\n";

    #[test]
    fn what_is_mounted_last_and_nearest_is_what_is_seen() {
        let at = |path: &str, mounts: &str| mounted_at(Path::new(path), mounts).unwrap();
        assert_eq!(at("/tmp/navlock-0", MACHINE).0, "0:25");
        assert_eq!(at("/run/navlock", MACHINE).0, "8:1");
        let private =
            format!("{MACHINE}40 30 0:25 /systemd-private-x/tmp /tmp rw - tmpfs tmpfs rw\n");
        assert_ne!(at("/tmp", &private), at("/tmp", MACHINE));
        assert_eq!(at("/tmp", &private).1, "/systemd-private-x/tmp");
        assert_eq!(mounted_at(Path::new("/tmp"), ""), None);
    }
}
