//! What surrounds this program: variables, programs, limits.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use navlock::Project;
use navlock_platform::{
    descriptor::highest_limit, file::identity_behind, shell::found, surroundings::peculiarities,
};

use super::Check;
use crate::{
    args::{BUCKET, TIMEOUT, values},
    commands::daemon,
    settings,
};

/// The variable in which the launcher of the npm package tells its own path. That launcher is
/// called `navlock` as well, and starts this program.
const LAUNCHER: &str = "NAVLOCK_LAUNCHER";

/// With fewer descriptors than this, a broker has room for only a few clients.
const FEW: u64 = 1024;

pub(super) fn checks() -> Vec<Check> {
    let mut variables: Vec<_> = env::vars_os()
        .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"NAVLOCK_") && name != LAUNCHER)
        .collect();
    variables.sort();
    let mut checks: Vec<_> =
        variables.iter().map(|(name, value)| variable(&name.to_string_lossy(), value)).collect();
    let launcher = env::var_os(LAUNCHER).map(PathBuf::from);
    checks.push(program(
        env::var_os("PATH").as_deref(),
        env::current_exe().ok().as_deref(),
        launcher.as_deref(),
    ));
    checks.push(project());
    checks.push(descriptors(highest_limit()));
    checks.extend(peculiarities().into_iter().map(|(what, why)| match what {
        // Nothing can be started without it.
        "/dev/null" => Check::fail(what, why),
        _ => Check::warn(what, why),
    }));
    checks
}

/// The bucket that this folder's programs in JavaScript have.
fn project() -> Check {
    match Project::here() {
        Ok(project) => {
            let (bucket, because) = (project.bucket(), project.because());
            let is_named = env::var_os(BUCKET).is_some_and(|bucket| !bucket.is_empty());
            let uses = if is_named {
                "would be the bucket of programs in JavaScript here if NAVLOCK_BUCKET named none"
            } else {
                "is the bucket of programs in JavaScript here; '--project' uses it"
            };
            Check::ok("project", format_args!("{bucket:?}, {because}, {uses}"))
        }
        Err(error) => {
            Check::warn("project", format_args!("the working folder cannot be used: {error}"))
                .remedy("change to another one")
        }
    }
}

fn variable(name: &str, value: &OsStr) -> Check {
    let shown = value.to_string_lossy().into_owned();
    let what = name.to_owned();
    let ok = |detail: &str| Check::ok(what.clone(), format_args!("{shown:?}: {detail}"));
    let warn = |detail: &str| Check::warn(what.clone(), format_args!("{shown:?}: {detail}"));
    match name {
        "NAVLOCK_NAME" | "NAVLOCK_MODE" | "NAVLOCK_FENCE" | "NAVLOCK_INSIDE" => {
            ok("this runs under a lock")
        }
        _ if value.is_empty() => ok("empty is unset"),
        "NAVLOCK_BUCKET" => ok("the bucket, if no other is given"),
        "NAVLOCK_SOCKET" if Path::new(value).is_relative() => {
            warn("a path from the current directory, so that every directory has another broker")
                .remedy("make it absolute")
        }
        "NAVLOCK_SOCKET" => ok("the broker's socket"),
        "NAVLOCK_SYSTEM" if value == "0" => ok("this user's own broker, which is the default"),
        "NAVLOCK_SYSTEM" if value == "1" => ok("the machine's broker, which several users share"),
        "NAVLOCK_SYSTEM" if Path::new(value).is_absolute() => {
            ok("the directory of the machine's broker, which several users share")
        }
        "NAVLOCK_SYSTEM" => warn("counts as 1").remedy("set it to 1, or to 0"),
        // The values of these are checked together with the settings. They are not shown here:
        // users show this output to others, and a value that was meant for something else may
        // contain passwords.
        "NAVLOCK_ETCD" => Check::ok(
            what,
            "the etcd of brokers that are started from here, whatever the file says",
        ),
        "NAVLOCK_POSTGRES" => Check::ok(
            what,
            "the PostgreSQL of brokers that are started from here, whatever the file says",
        ),
        "NAVLOCK_STORE" => ok("the store in which all buckets live"),
        "NAVLOCK_CONFIG" => {
            ok("the settings of clients, and of brokers that are started from here")
        }
        "NAVLOCK_STATE" => ok("where brokers keep a bound of their fencing tokens"),
        settings::LOG => match settings::log(&shown) {
            Ok(_) => ok("what brokers log that are started from here"),
            Err(error) => Check::fail(what, format_args!("{shown:?}")).remedy(error),
        },
        settings::LOG_NAMES => match settings::zero_or_one(name, &shown) {
            Ok(Some(true)) => ok("brokers that are started from here log names of locks"),
            Ok(_) => ok("brokers log names of locks at the level debug only, which is the default"),
            Err(error) => Check::fail(what, format_args!("{shown:?}")).remedy(error),
        },
        settings::DELEGATE => match settings::zero_or_one(name, &shown) {
            Ok(Some(false)) => {
                ok("clients and brokers that are started from here ask for each lock")
            }
            Ok(_) => ok("clients can take a name again without asking, which is the default"),
            Err(error) => Check::fail(what, format_args!("{shown:?}")).remedy(error),
        },
        "NAVLOCK_IDLE_SECS" => match daemon::idle_seconds(&shown) {
            Ok(_) => ok("seconds for which a broker without clients stays"),
            Err(error) => Check::fail(what, format_args!("{shown:?}")).remedy(error),
        },
        TIMEOUT => match values::time(&shown) {
            Ok(_) => ok("how long a request waits at most, unless an option says so"),
            Err(error) => Check::fail(what, format_args!("{shown:?}")).remedy(error),
        },
        "NAVLOCK_BIN" if found(value, env::var_os("PATH").as_deref()).is_some() => {
            ok("the program that is the broker")
        }
        "NAVLOCK_BIN" => Check::fail(what, format_args!("{shown:?} is no program"))
            .remedy("set it to the path of navlock, or unset it"),
        _ => Check::warn(what, "navlock does not know this variable")
            .remedy("unset it, or mend its name"),
    }
}

/// Whether programs that use the library find this same `navlock` when they start the broker.
fn program(path: Option<&OsStr>, ours: Option<&Path>, launcher: Option<&Path>) -> Check {
    let found = found(OsStr::new("navlock"), path);
    let us = ours.map_or_else(|| OsString::from("?"), |ours| ours.as_os_str().to_owned());
    let us = us.to_string_lossy();
    match found {
        Some(found) if ours.is_some_and(|ours| same(&found, ours)) => {
            Check::ok("program", format_args!("{} is in PATH", found.display()))
        }
        Some(found)
            if launcher
                .is_some_and(|launcher| same(&found, launcher) || starts(&found, launcher)) =>
        {
            Check::ok("program", format_args!("{} starts {us}", found.display()))
        }
        Some(found) => {
            let detail = format!("this is {us}, and PATH has {}", found.display());
            Check::warn("program", detail)
                .remedy("remove one of them, or set NAVLOCK_BIN to the one that is meant")
        }
        // Then this program cannot start the broker either.
        None if ours.is_none() && env::var_os("NAVLOCK_BIN").is_none() => {
            Check::fail("program", "no navlock is in PATH, and this one cannot be found")
                .remedy("add its directory to PATH, or set NAVLOCK_BIN")
        }
        None => Check::warn("program", format_args!("{us} is not in PATH")).remedy(
            "programs that use the library cannot start the broker; \
             add its directory to PATH, or set NAVLOCK_BIN",
        ),
    }
}

/// Whether this is a script that starts the launcher, as pnpm makes one instead of a link. Such a script has
/// the launcher's path in quotation marks, as seen from its own directory.
fn starts(script: &Path, launcher: &Path) -> bool {
    /// Longer than any such script.
    const LONG: u64 = 1 << 16;
    let is_short = fs::metadata(script).is_ok_and(|found| found.len() < LONG);
    let text = is_short.then(|| fs::read_to_string(script).ok()).flatten().unwrap_or_default();
    text.split('"').any(|path| {
        let mut here = ["$basedir/", "%~dp0\\", "%dp0%\\"].into_iter();
        let path = here.find_map(|here| path.strip_prefix(here)).unwrap_or(path);
        script.parent().is_some_and(|directory| same(&directory.join(path), launcher))
    })
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((identity_behind(a), identity_behind(b)), (Ok(a), Ok(b)) if a == b)
}

/// Each client takes a descriptor of the broker. The broker raises its limit as far as it may.
fn descriptors(most: Option<u64>) -> Check {
    match most {
        Some(most) if most < FEW => {
            let detail = format!("{most} at most, and each client of the broker takes one");
            Check::warn("descriptors", detail).remedy("raise the hard limit (ulimit -Hn)")
        }
        Some(most) => Check::ok("descriptors", format_args!("{most} at most")),
        None => Check::ok("descriptors", "without a limit"),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Level, *};

    #[test]
    #[cfg(unix)]
    fn a_variable_is_good_bad_or_unknown() {
        for (name, value, level) in [
            ("NAVLOCK_NAME", "db", Level::Ok),
            ("NAVLOCK_BUCKET", "b", Level::Ok),
            ("NAVLOCK_SOCKET", "", Level::Ok),
            ("NAVLOCK_SOCKET", "/tmp/x/sock", Level::Ok),
            ("NAVLOCK_SOCKET", "sock", Level::Warn),
            ("NAVLOCK_SYSTEM", "0", Level::Ok),
            ("NAVLOCK_SYSTEM", "1", Level::Ok),
            ("NAVLOCK_SYSTEM", "/run/locks", Level::Ok),
            ("NAVLOCK_SYSTEM", "yes", Level::Warn),
            ("NAVLOCK_IDLE_SECS", "2.5", Level::Ok),
            ("NAVLOCK_IDLE_SECS", "soon", Level::Fail),
            ("NAVLOCK_TIMEOUT", "1m30s", Level::Ok),
            ("NAVLOCK_TIMEOUT", "soon", Level::Fail),
            ("NAVLOCK_DELEGATE", "0", Level::Ok),
            ("NAVLOCK_DELEGATE", "", Level::Ok),
            ("NAVLOCK_DELEGATE", "off", Level::Fail),
            ("NAVLOCK_LOG", "navlock::etcd=debug", Level::Ok),
            ("NAVLOCK_LOG", "loud", Level::Fail),
            ("NAVLOCK_LOG_NAMES", "1", Level::Ok),
            ("NAVLOCK_LOG_NAMES", "yes", Level::Fail),
            ("NAVLOCK_ETCD", "", Level::Ok),
            ("NAVLOCK_ETCD", "host:2379", Level::Ok),
            ("NAVLOCK_POSTGRES", "postgres://host/db", Level::Ok),
            ("NAVLOCK_CONFIG", "/etc/navlock.toml", Level::Ok),
            ("NAVLOCK_BIN", "/no/such/navlock", Level::Fail),
            ("NAVLOCK_BIN", "/bin/sh", Level::Ok),
            ("NAVLOCK_BIN", "sh", Level::Ok),
            ("NAVLOCK_BUCKTE", "b", Level::Warn),
        ] {
            assert_eq!(variable(name, OsStr::new(value)).level, level, "{name}={value}");
        }
    }

    #[test]
    fn a_variable_that_may_contain_a_password_is_not_repeated() {
        for name in ["NAVLOCK_ETCD", "NAVLOCK_POSTGRES", "NAVLOCK_PASSWORD"] {
            let check = variable(name, OsStr::new("http://ada:s3cret@host:2379"));
            assert!(!format!("{check:?}").contains("s3cret"), "{check:?}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn another_navlock_in_the_path_is_noticed() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let ours = directory.path().join("navlock");
        let path = Some(directory.path().as_os_str());
        assert_eq!(program(path, Some(&ours), None).level, Level::Warn);
        fs::write(&ours, "").unwrap();
        fs::set_permissions(&ours, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(program(path, Some(&ours), None).level, Level::Ok);
        let other = directory.path().join("other");
        fs::write(&other, "").unwrap();
        assert!(program(path, Some(&other), None).detail.contains("and PATH has"));
        assert_eq!(program(path, Some(&other), Some(&ours)).level, Level::Ok);
        // As pnpm writes it.
        let deep = directory.path().join("deep/js");
        fs::create_dir_all(&deep).unwrap();
        let launcher = deep.join("launcher.cjs");
        fs::write(&launcher, "").unwrap();
        let shim = |starts: &str| {
            let text = format!(
                "#!/bin/sh\nbasedir=$(dirname \"$0\")\nexec node  \"$basedir/{starts}\" \"$@\"\n"
            );
            fs::write(&ours, text).unwrap();
            program(path, Some(&other), Some(&launcher)).level
        };
        assert_eq!(shim("deep/js/launcher.cjs"), Level::Ok);
        assert_eq!(shim("deep/js/other.cjs"), Level::Warn);
        assert!(program(None, Some(&ours), None).detail.contains("not in PATH"));
    }

    #[test]
    fn few_descriptors_are_few_clients() {
        assert_eq!(descriptors(Some(256)).level, Level::Warn);
        assert_eq!(descriptors(Some(4096)).level, Level::Ok);
        assert_eq!(descriptors(None).level, Level::Ok);
    }
}
