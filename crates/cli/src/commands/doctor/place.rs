//! The broker's place: whether only this user may use it, and whether it is fit for sockets and
//! file locks.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::Path,
    time::{Duration, SystemTime},
};

use navlock::{Place, PlaceError, Reason};
use navlock_broker::Control;
use navlock_platform::{
    file::{create_private_directory, group_at, mode_at},
    file_lock,
    socket::Listener,
    user::{group, group_name, is_assigned},
};

use super::Check;

/// If the clock is behind the time in the file by more than this, it was turned back.
const TURNED_BACK: Duration = Duration::from_secs(2);

pub(super) fn checks(place: &Place) -> Vec<Check> {
    if place.is_of_system() {
        return of_system(place).into_iter().collect();
    }
    let mut checks = vec![usable(place)];
    checks.extend(place.secluded().map(|why| Check::warn("private /tmp", why)));
    // Nothing is written into a place that belongs to another user.
    if place.check().is_ok() {
        checks.push(file_system(place.directory()));
        checks.extend(left_behind(place));
        checks.push(clock(&place.broker_lock()));
    }
    checks
}

/// Whether this user may use the machine's broker. Nothing if there is no such place, because then there is no
/// such broker either.
fn of_system(place: &Place) -> Option<Check> {
    let (socket, directory) = (place.socket().display(), place.directory());
    match place.check() {
        Ok(()) => {
            let group = fs::metadata(directory).map(|found| group_name(group_at(&found)));
            let group = group.unwrap_or_default();
            let detail = format_args!("{socket}, for the members of the group {group}").to_string();
            Some(Check::ok("place", detail))
        }
        Err(PlaceError::Io(_, error)) if error.kind() == ErrorKind::NotFound => None,
        Err(PlaceError::NotAllowed(_, name)) if group(&name).is_some_and(is_assigned) => {
            let detail =
                format!("this user is in the group {name}, but not since this session began");
            Some(
                Check::fail("place", detail)
                    .remedy(format_args!("log in anew, or 'newgrp {name}'")),
            )
        }
        Err(error) => Some(Check::fail("place", error)),
    }
}

/// Checks the directory, the socket and the length of its path.
fn usable(place: &Place) -> Check {
    let socket = place.socket();
    let length = socket.as_os_str().len();
    match place.check() {
        Ok(()) => {
            let mode = fs::metadata(place.directory())
                .map_or(0, |found| mode_at(place.directory(), &found));
            let detail = format!("{} ({length} bytes; directory {mode:04o})", socket.display());
            Check::ok("place", detail)
        }
        // The first client makes the broker's own directory.
        Err(PlaceError::Io(path, error))
            if error.kind() == ErrorKind::NotFound
                && path == place.directory()
                && *place == Place::of_user() =>
        {
            match try_directory(&path) {
                Ok(()) => Check::ok(
                    "place",
                    format_args!("{} will be made when needed", socket.display()),
                ),
                Err(error) => Check::fail("place", PlaceError::Io(path, error.into())),
            }
        }
        Err(error) => Check::fail("place", error),
    }
}

/// Whether this directory, which does not exist, can be made. A directory beside it is made for a moment.
fn try_directory(path: &Path) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".doctor.{}", std::process::id()));
    create_private_directory(Path::new(&beside))?;
    fs::remove_dir(beside)
}

/// Whether the directory's file system can do what the broker needs. Some network file systems and
/// some shared folders of virtual machines cannot.
fn file_system(directory: &Path) -> Check {
    let probe = directory.join(format!("doctor.{}", std::process::id()));
    let tried = try_file_system(&probe);
    let _ = fs::remove_file(&probe);
    match tried {
        Ok(()) => Check::ok("file system", "takes file locks and sockets"),
        Err((what, error)) => {
            let detail = format!("no {what} in {}: {error}", directory.display());
            let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
            Check::fail("file system", detail).remedy(if is_full {
                "make room there: commands are not run without it"
            } else {
                "set NAVLOCK_SOCKET to a path on a local file system"
            })
        }
    }
}

fn try_file_system(probe: &Path) -> Result<(), (&'static str, io::Error)> {
    let of = |what: &'static str| move |error: io::Error| (what, error);
    let mut file = File::create_new(probe).map_err(of("new files"))?;
    // The file for a command takes this much room.
    file.write_all(&[0; 4096]).map_err(of("room"))?;
    let locked = file_lock::try_exclusive(&file);
    let refused = || io::Error::from(ErrorKind::WouldBlock);
    locked
        .and_then(|is_ours| if is_ours { Ok(()) } else { Err(refused()) })
        .map_err(of("file locks"))?;
    // Some systems remove a file only when nobody has it open any more.
    drop(file);
    fs::remove_file(probe).map_err(of("removal of files"))?;
    Listener::bind(probe).map(drop).map_err(of("sockets"))
}

/// The files that killed brokers have left behind.
fn left_behind(place: &Place) -> Option<Check> {
    let socket = place.socket();
    let is_running = |error: navlock::ConnectError| *error.reason() != Reason::NotRunning;
    if !socket.exists() || Control::connect(place).map_or_else(is_running, |_| true) {
        return None;
    }
    let detail = format!("{} is of a broker that has ended", socket.display());
    Some(Check::warn("stale socket", detail).remedy("nothing to do: the next broker replaces it"))
}

fn clock(written: &Path) -> Check {
    let now = SystemTime::now();
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let years = 1970.0 + since.as_secs_f64() / (365.2425 * 86_400.0);
    // Fencing tokens contain the time.
    let remedy = "set it, or fencing tokens may be smaller than earlier ones";
    if !(2024.0..2554.0).contains(&years) {
        return Check::warn("clock", format_args!("it is the year {years:.0}")).remedy(remedy);
    }
    let ahead = fs::metadata(written).and_then(|found| found.modified());
    match ahead.ok().and_then(|written| written.duration_since(now).ok()) {
        Some(ahead) if ahead > TURNED_BACK => {
            let seconds = ahead.as_secs();
            let detail = format!("it was turned back: a broker began {seconds} s from now");
            Check::warn("clock", detail).remedy(remedy)
        }
        _ => Check::ok("clock", "plausible"),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Level, *};

    #[test]
    fn a_directory_that_takes_locks_and_sockets_is_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(file_system(directory.path()).level, Level::Ok);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(file_system(&directory.path().join("gone")).level, Level::Fail);
    }

    #[test]
    fn a_clock_that_was_turned_back_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("broker.lock");
        assert_eq!(clock(&path).level, Level::Ok);
        let file = File::create(&path).unwrap();
        assert_eq!(clock(&path).level, Level::Ok);
        file.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
        assert_eq!(clock(&path).level, Level::Warn);
    }

    #[test]
    fn a_place_of_ones_own_choice_has_to_be_there() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(usable(&Place::at(directory.path().join("sock"))).level, Level::Ok);
        assert_eq!(usable(&Place::at(directory.path().join("no/sock"))).level, Level::Fail);
        let long = directory.path().join("x".repeat(navlock_platform::socket::MAX_PATH));
        assert!(usable(&Place::at(long)).detail.contains("too long for a socket"));
    }
}
