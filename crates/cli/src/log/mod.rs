//! What a broker logs while it runs.
//!
//! A broker that somebody runs on purpose, as a service manager does, logs to its error stream. A
//! broker that a client has started, whose streams nobody reads, logs to a file of bounded size
//! beside its socket. Both are written by a thread of their own: see [`sink`].

mod filter;
pub(crate) mod reader;
mod rotating;
mod sink;

use std::{
    env, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use navlock::Place;
use navlock_broker::daemon;
use navlock_platform::file::identity_behind;
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt as formatting, layer::SubscriberExt, reload,
    util::SubscriberInitExt,
};

pub(crate) use self::filter::Filter;
use self::{rotating::RotatingFile, sink::Sink};

/// The error stream: the log of a program that has not begun to log.
const STDERR: &str = "/proc/self/fd/2";

/// How long the program waits at its end for lines that have still to be written.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The log of this process.
#[derive(Debug)]
pub(crate) struct Log {
    sink: Sink,
    /// The file of the log; `None` for the error stream.
    file: Option<PathBuf>,
    filter: Mutex<Filter>,
    targets: reload::Handle<Targets, Registry>,
}

impl Log {
    /// Begins the log: in the place's file for a broker that was started `on_demand`, otherwise on
    /// the error stream. Once in a process.
    pub(crate) fn begin(place: &Place, on_demand: bool, filter: Filter) -> Arc<Self> {
        let file = on_demand.then(|| place.log());
        let is_journal = file.is_none() && is_journal();
        let sink = match &file {
            Some(path) => Sink::new(RotatingFile::new(path.clone()), false),
            None => Sink::new(io::stderr(), is_journal),
        };
        let (targets, handle) = reload::Layer::new(filter.targets());
        let lines = formatting::layer().with_ansi(false).with_writer(sink.clone());
        // The journal has times of its own.
        let lines = if is_journal { lines.without_time().boxed() } else { lines.boxed() };
        // An error is not possible, because there is no subscriber before this one.
        let _ = tracing_subscriber::registry().with(targets).with(lines).try_init();
        Arc::new(Self { sink, file, filter: Mutex::new(filter), targets: handle })
    }

    /// Whether the log is the error stream, so that a text written there as well would appear
    /// twice.
    pub(crate) fn is_on_stderr(&self) -> bool {
        self.file.is_none()
    }

    /// Waits until everything that was logged is written, but no longer than this.
    pub(crate) fn flush(&self, timeout: Duration) {
        self.sink.flush(timeout);
    }
}

impl daemon::Log for Log {
    fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    fn filter(&self) -> String {
        self.filter.lock().unwrap_or_else(PoisonError::into_inner).to_string()
    }

    fn set_filter(&self, filter: &str) -> Result<(), String> {
        let filter: Filter = filter.parse()?;
        self.targets.reload(filter.targets()).map_err(|error| error.to_string())?;
        *self.filter.lock().unwrap_or_else(PoisonError::into_inner) = filter;
        Ok(())
    }

    fn dropped(&self) -> u64 {
        self.sink.dropped()
    }
}

/// Whether the error stream goes to systemd's journal. The journal knows the time of a line, and
/// takes its level from the beginning of the line (sd-daemon(3)).
fn is_journal() -> bool {
    env::var("JOURNAL_STREAM").is_ok_and(|named| is_named(&named, Path::new(STDERR)))
}

/// Whether this is the file that the variable names by device and inode (systemd.exec(5)). The
/// variable alone proves nothing, because processes with another error stream inherit it.
fn is_named(named: &str, file: &Path) -> bool {
    let found = identity_behind(file).map(|(device, inode)| format!("{device}:{inode}"));
    found.is_ok_and(|found| found == named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_known_by_its_device_and_its_inode() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (device, inode) = identity_behind(file.path()).unwrap();
        assert!(is_named(&format!("{device}:{inode}"), file.path()));
        assert!(!is_named(&format!("{device}:{}", inode + 1), file.path()));
        assert!(!is_named("", file.path()));
    }
}
