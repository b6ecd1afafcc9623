//! Which boot of the machine this is, and whether other processes see the same files.

use std::{fs, path::Path};

/// What tells this boot of the machine from all others of any machine; `None` where that is not known.
#[cfg(target_vendor = "apple")]
#[allow(unsafe_code, reason = "no safe library has this call")]
pub fn boot_id() -> Option<String> {
    use std::{ffi::CStr, ptr};
    // A UUID, with the zero at its end.
    let mut text = [0_u8; 64];
    let mut length = text.len();
    let to = text.as_mut_ptr().cast();
    // SAFETY: The name ends in a zero, there is room for as much as it is told, and nothing new is set.
    let got = unsafe {
        nix::libc::sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            to,
            &raw mut length,
            ptr::null_mut(),
            0,
        )
    };
    let boot = CStr::from_bytes_until_nul(text.get(..length)?).ok()?.to_str().ok()?;
    (got == 0 && !boot.is_empty()).then(|| boot.to_owned())
}

/// What tells this boot of the machine from all others of any machine; `None` where that is not known.
#[cfg(not(target_vendor = "apple"))]
pub fn boot_id() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(boot.trim().to_owned())
}

/// Whether what we see at this path is another file system, or another part of one, than what the
/// machine's first process sees there. Only root may see the mounts of that process. For all others, this is
/// whether a part of a file system is mounted right at the path, as systemd mounts it for a service with
/// `PrivateTmp`. `false` if that cannot be told.
pub fn is_secluded(path: &Path) -> bool {
    let mounted = |process: &str| {
        let mounts = fs::read_to_string(format!("/proc/{process}/mountinfo")).ok()?;
        mounted_at(path, &mounts)
    };
    match (mounted("self"), mounted("1")) {
        (Some(ours), Some(theirs)) => ours != theirs,
        (Some((_, part, at)), None) => is_part(path, &part, &at),
        _ => false,
    }
}

fn is_part(path: &Path, part: &str, at: &str) -> bool {
    part != "/" && path == Path::new(at)
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
    fn the_last_and_nearest_mount_is_the_one_that_is_seen() {
        let at = |path: &str, mounts: &str| mounted_at(Path::new(path), mounts).unwrap();
        assert_eq!(at("/tmp/navlock-0", MACHINE).0, "0:25");
        assert_eq!(at("/run/navlock", MACHINE).0, "8:1");
        let private =
            format!("{MACHINE}40 30 0:25 /systemd-private-x/tmp /tmp rw - tmpfs tmpfs rw\n");
        assert_ne!(at("/tmp", &private), at("/tmp", MACHINE));
        assert_eq!(at("/tmp", &private).1, "/systemd-private-x/tmp");
        assert_eq!(mounted_at(Path::new("/tmp"), ""), None);
        // Without the mounts of the first process.
        let is_seen = |mounts: &str| {
            let (_, part, at) = at("/tmp", mounts);
            is_part(Path::new("/tmp"), &part, &at)
        };
        assert!(is_seen(&private) && !is_seen(MACHINE));
        assert!(!is_seen("22 1 8:1 /roots/7 / rw - ext4 /dev/sda1 rw\n"));
    }
}
