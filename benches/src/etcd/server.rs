//! An etcd that the benchmarks start.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use navlock_testkit::{Port, Start};
use tempfile::TempDir;

/// How long etcd may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The kind of storage that etcd writes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Disk,
    Memory,
}

impl Store {
    pub(crate) const ALL: [Self; 2] = [Self::Disk, Self::Memory];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Memory => "memory",
        }
    }

    /// The folder of the data. Temporary files may be in memory; what is built is not.
    fn folder(self) -> PathBuf {
        match self {
            Self::Memory => PathBuf::from("/dev/shm"),
            Self::Disk => {
                let program = std::env::current_exe().ok();
                let folder = program.as_deref().and_then(Path::parent).map(Path::to_owned);
                folder.unwrap_or_else(std::env::temp_dir)
            }
        }
    }
}

/// One node of etcd. It ends when this is dropped, or with this process.
pub(crate) struct Server {
    store: Store,
    endpoint: String,
    file_system: String,
    // It ends before its folder is removed, and before its ports are free for others.
    running: navlock_testkit::Server,
    _ports: [Port; 2],
    _directory: TempDir,
}

impl Server {
    /// # Errors
    ///
    /// Why it cannot be started.
    pub(crate) fn start(store: Store) -> Result<Self, String> {
        let folder = store.folder();
        let failed = |error| format!("cannot start etcd in {}: {error}", folder.display());
        let directory = tempfile::Builder::new().prefix("etcd-").tempdir_in(&folder);
        let directory = directory.map_err(failed)?;
        let ports = [Port::take().map_err(failed)?, Port::take().map_err(failed)?];
        let [client, peer] = ports.each_ref().map(|port| format!("http://{port}"));
        let data = directory.path().join("data");
        let words = [
            "etcd".to_owned(),
            "--log-level=error".to_owned(),
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
        ];
        let endpoint = ports[0].to_string();
        let started = navlock_testkit::Server::start(&Start {
            words: &words,
            address: &endpoint,
            said: &directory.path().join("said"),
            removed: Some(directory.path()),
            timeout: START_TIMEOUT,
        });
        let running = started.map_err(|failed| format!("etcd at {endpoint}: {failed}"))?;
        let file_system = file_system(&folder);
        Ok(Self { store, endpoint, file_system, running, _ports: ports, _directory: directory })
    }

    /// The id of its process.
    pub(crate) fn pid(&self) -> i32 {
        self.running.pid()
    }

    pub(super) fn store(&self) -> Store {
        self.store
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The storage that its data is on.
    pub(super) fn describe(&self) -> String {
        format!("{}: {}", self.store.as_str(), self.file_system)
    }
}

/// The version of the installed etcd.
///
/// # Errors
///
/// If etcd is not installed.
pub(crate) fn version() -> Result<String, String> {
    let output = Command::new("etcd").arg("--version").output();
    let missing = "this needs `etcd` 3.4 or newer on PATH; install it (Debian: etcd-server)";
    let output = output.map_err(|_| missing.to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: "));
    Ok(format!("etcd {}", version.unwrap_or("of unknown version")))
}

/// The kind of file system that a folder is on.
fn file_system(folder: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let on = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, at, kind) = (words.next()?, words.next()?, words.next()?);
        folder.starts_with(at).then(|| (at.len(), kind.to_owned()))
    });
    on.max().map_or_else(|| "unknown file system".to_owned(), |(_, kind)| kind)
}
