//! The releases of etcd that are fit for locks.

use super::Check;

/// A fault of etcd by which two clients can hold one lock, however well etcd is used.
struct Fault {
    /// For each minor release, from the oldest supported one on, the first patch without the fault;
    /// 0 for a release that never had it.
    mended: [(u64, u64); 3],
    what: &'static str,
}

/// The oldest releases that are supported.
const OLDEST: (u64, u64) = (3, 4);

const FAULTS: [Fault; 2] = [
    Fault {
        mended: [(4, 38), (5, 23), (6, 5)],
        what: "it may tell a holder that its lease was renewed which it has just ended \
               (etcd pull request 20590)",
    },
    Fault {
        mended: [(4, 31), (5, 13), (6, 0)],
        what: "a leader that was replaced while its disk or CPU was stuck may end leases that are \
               kept (etcd issue 15247)",
    },
];

/// The check of a member with this release.
pub(super) fn check(what: String, version: &str) -> Check {
    let Some((major, minor, patch)) = parsed(version) else {
        return Check::warn(what, format_args!("of release {version:?}, which is not known"));
    };
    if (major, minor) < OLDEST {
        let detail = format!("of release {version}, which is too old");
        return Check::fail(what, detail).remedy("upgrade etcd to 3.4 at least");
    }
    let has = |fault: &&Fault| {
        major == 3 && fault.mended.iter().any(|&(of, mended)| of == minor && patch < mended)
    };
    let faults: Vec<_> = FAULTS.iter().filter(has).collect();
    let Some(first) = faults.first() else {
        return Check::ok(what, format_args!("of release {version}"));
    };
    let why = faults.iter().map(|fault| fault.what).collect::<Vec<_>>().join("; and ");
    let detail = format!("of release {version}: {why}, so that two hold one lock for a while");
    let mended = first.mended.iter().map(|(minor, patch)| format!("3.{minor}.{patch}"));
    let mended = mended.collect::<Vec<_>>().join(", ");
    Check::warn(what, detail).remedy(format_args!("upgrade etcd, to one of {mended} at least"))
}

/// The numbers at the beginning of a release. A pre-release counts as the release itself.
fn parsed(version: &str) -> Option<(u64, u64, u64)> {
    let numbers = version.split(['-', '+']).next()?;
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::{super::Level, *};

    #[test]
    fn releases_with_faults_are_warned_of_with_the_reason() {
        for (version, level, reasons) in [
            ("2.3.8", Level::Fail, 0),
            ("3.3.27", Level::Fail, 0),
            ("3.4.0", Level::Warn, 2),
            ("3.4.23", Level::Warn, 2),
            ("3.4.31", Level::Warn, 1),
            ("3.4.37", Level::Warn, 1),
            ("3.4.38", Level::Ok, 0),
            ("3.5.12", Level::Warn, 2),
            ("3.5.22", Level::Warn, 1),
            ("3.5.23", Level::Ok, 0),
            ("3.6.0-rc.1", Level::Warn, 1),
            ("3.6.4", Level::Warn, 1),
            ("3.6.5", Level::Ok, 0),
            ("3.7.0", Level::Ok, 0),
            ("4.4.0", Level::Ok, 0),
            ("not decided", Level::Warn, 0),
            ("3.5", Level::Warn, 0),
        ] {
            let check = check("etcd".to_owned(), version);
            assert_eq!(check.level, level, "{version}: {check:?}");
            let said = check.detail.matches("(etcd ").count();
            assert_eq!(said, reasons, "{version}: {check:?}");
        }
    }
}
