//! Panics inside a broker. An error of this program must not pass unseen. So each panic is logged,
//! if anything is, and is also written to a file in which no later lines push it out.
//! `navlock doctor` and `navlock daemon logs` tell of that file.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fs::{self, File},
    io::{self, Read, Write},
    panic::{self, PanicHookInfo},
    path::{Path, PathBuf},
    process,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use navlock::Place;
use navlock_broker::{LOGS, within};

use crate::{append::open_to_append, log::Log};

/// When the file has this many bytes, nothing more is written to it, because the first faults tell
/// more than the last ones.
const FULL: u64 = 64 << 10;

/// How long a broker lets its clients wait for a line in this file. The directory may be on a file
/// system that does not answer, and the broker has one thread for all clients.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// What is known of past faults.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) file: PathBuf,
    pub(crate) count: usize,
    pub(crate) last: String,
}

impl Faults {
    /// The faults, in a sentence for people.
    pub(crate) fn told(&self) -> String {
        match self.count {
            1 => format!("one error inside a broker: {}", self.last),
            count => format!("{count} errors inside brokers, the last: {}", self.last),
        }
    }

    /// What to do about them.
    pub(crate) fn remedy(&self) -> String {
        format!("report it with {}, then remove that file", self.file.display())
    }
}

/// From now on, logs every panic of this process, and writes it to a file in the state directory
/// or, if that fails, in the broker's place.
pub(crate) fn write_down(state: Option<PathBuf>, place: &Place, log: Arc<Log>) {
    let (socket, beside) = (place.socket().to_owned(), place.faults());
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |fault| {
        if !log.is_on_stderr() || !tracing::enabled!(target: LOGS, tracing::Level::ERROR) {
            // The usual hook writes to the error stream, where a client that has started the broker
            // reads why it does not start. So a fault is not lost, even if it is not logged and
            // there is no directory for the file.
            usual(fault);
        }
        let line = line(fault, &socket);
        // The backtrace, if RUST_BACKTRACE asks for one.
        let backtrace = Backtrace::capture();
        let backtrace = (backtrace.status() == BacktraceStatus::Captured).then_some(backtrace);
        let backtrace = backtrace.as_ref().map(tracing::field::display);
        tracing::error!(target: LOGS, backtrace, "{fault}");
        let is_written = |file: PathBuf| {
            let line = line.clone();
            within(WRITE_TIMEOUT, move || append(&file, &line).is_ok()) == Some(true)
        };
        let file = state.as_deref().map(Place::faults_in);
        if !file.is_some_and(is_written) {
            // If this fails, there is no place left to say so.
            _ = is_written(beside.clone());
        }
        log.flush(WRITE_TIMEOUT);
    }));
}

fn line(fault: &PanicHookInfo<'_>, socket: &Path) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let thread = thread::current();
    let what = format!(
        "@{} process {} of release {} at {}, thread {}: {fault}",
        now.as_secs(),
        process::id(),
        env!("CARGO_PKG_VERSION"),
        socket.display(),
        thread.name().unwrap_or("without a name"),
    );
    what.replace('\n', " ") + "\n"
}

fn append(file: &Path, line: &str) -> io::Result<()> {
    let mut file = open_to_append(file)?;
    if file.metadata()?.len() < FULL { file.write_all(line.as_bytes()) } else { Ok(()) }
}

/// The faults that were written by brokers with this state directory and this place, file by file.
pub(crate) fn known(state: Option<&Path>, place: &Place) -> Vec<Faults> {
    let files = state.map(Place::faults_in).into_iter().chain([place.faults()]);
    files.filter_map(known_in).collect()
}

/// The faults in this file, if there are any.
fn known_in(file: PathBuf) -> Option<Faults> {
    // A file that is not regular may have no end.
    let is_file = fs::symlink_metadata(&file).is_ok_and(|found| found.is_file());
    let mut bytes = Vec::new();
    // The end of the last line may be this far beyond the limit.
    let most = FULL + (4 << 10);
    let opened = if is_file { File::open(&file).ok() } else { None };
    opened?.take(most).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().last()?.to_owned();
    Some(Faults { count: text.lines().count(), last, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_faults_are_known() {
        let state = tempfile::tempdir().unwrap();
        let file = Place::faults_in(state.path());
        assert_eq!(known_in(file.clone()), None);
        append(&file, "one\n").unwrap();
        append(&file, "two\n").unwrap();
        let found = Faults { file: file.clone(), count: 2, last: "two".to_owned() };
        assert_eq!(known_in(file), Some(found));
    }

    #[test]
    fn the_file_of_faults_does_not_grow_for_ever() {
        let state = tempfile::tempdir().unwrap();
        let line = "x".repeat(1_000) + "\n";
        let file = Place::faults_in(state.path());
        for _ in 0..100 {
            append(&file, &line).unwrap();
        }
        let length = fs::metadata(&file).unwrap().len();
        assert!((FULL..FULL + 1_001).contains(&length), "{length}");
    }

    /// Windows has its pipes in no directory.
    #[test]
    #[cfg(unix)]
    fn a_pipe_in_its_place_is_not_waited_for() {
        let state = tempfile::tempdir().unwrap();
        let pipe = Place::faults_in(state.path());
        assert!(process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let file = pipe.clone();
        let appended = within(Duration::from_secs(20), move || append(&file, "one\n"));
        appended.expect("it does not wait").unwrap_err();
        assert_eq!(known_in(pipe), None);
    }

    /// The body of the next test, which runs it as a process of its own: a panic hook is of the
    /// whole process.
    #[test]
    #[ignore = "it panics: the next test runs it in a process of its own"]
    fn panics_as_a_broker() {
        let Some(state) = std::env::var_os("NAVLOCK_TEST_STATE").map(PathBuf::from) else { return };
        let is_off = std::env::var_os("NAVLOCK_TEST_OFF").is_some();
        // A place in which no file can be made.
        let place = Place::at(if is_off { state.join("nowhere/sock") } else { state.join("sock") });
        let filter = if is_off { "off".parse().unwrap() } else { crate::log::Filter::default() };
        let log = Log::begin(&place, !is_off, filter);
        write_down((!is_off).then_some(state), &place, log);
        panic!("first line\nsecond line");
    }

    #[test]
    fn a_panic_is_logged_and_written_down() {
        let state = tempfile::tempdir().unwrap();
        let mut broker = process::Command::new(std::env::current_exe().unwrap());
        broker.args(["--exact", "faults::tests::panics_as_a_broker", "--ignored"]);
        broker.env("NAVLOCK_TEST_STATE", state.path()).env("RUST_BACKTRACE", "1");
        assert!(!broker.output().unwrap().status.success());
        let log = fs::read_to_string(state.path().join("sock.log")).unwrap();
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(
            log.contains("ERROR navlock::broker: ") && log.contains(": first line second line")
        );
        assert!(log.contains("panics_as_a_broker"), "there is no backtrace: {log}");
        let found = known(Some(state.path()), &Place::at(state.path().join("sock")));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].last.contains("first line second line"));
    }

    #[test]
    fn a_panic_that_is_neither_logged_nor_written_down_is_told_on_the_error_stream() {
        let state = tempfile::tempdir().unwrap();
        let mut broker = process::Command::new(std::env::current_exe().unwrap());
        // As a program of its own: what a test writes there is kept by those who run it.
        broker.args(["--exact", "faults::tests::panics_as_a_broker", "--ignored", "--nocapture"]);
        broker.env("NAVLOCK_TEST_STATE", state.path()).env("NAVLOCK_TEST_OFF", "1");
        let ended = broker.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("first line\nsecond line"), "{said}");
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
    }

    #[test]
    #[cfg(unix)]
    fn nothing_is_written_through_a_link() {
        let state = tempfile::tempdir().unwrap();
        let other = state.path().join("other");
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&other, Place::faults_in(state.path())).unwrap();
        append(&Place::faults_in(state.path()), "one\n").unwrap_err();
        assert_eq!(fs::read(&other).unwrap(), b"");
        assert_eq!(known_in(Place::faults_in(state.path())), None);
    }
}
