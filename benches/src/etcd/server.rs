//! An etcd of our own.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts what is given to it, and kills it when its own standard input ends: with this process,
/// however that ends. Then it removes the directory that is named first.
const GUARD: &str = r#"directory=$1; shift; "$@" >/dev/null 2>&1 & pid=$!; echo $pid
    cat >/dev/null; kill -9 $pid 2>/dev/null; wait; rm -rf "$directory""#;

/// What etcd writes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Store {
    Disk,
    Memory,
}

impl Store {
    pub(super) const ALL: [Self; 2] = [Self::Disk, Self::Memory];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Memory => "memory",
        }
    }

    /// Where it is. Temporary files may be in memory; what is built is not.
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

/// One node. It ends when this is dropped, or with this process.
pub(super) struct Server {
    store: Store,
    endpoint: String,
    file_system: String,
    guard: Child,
    _directory: TempDir,
}

impl Server {
    /// # Errors
    ///
    /// Why it cannot be started.
    pub(super) fn start(store: Store) -> Result<Self, String> {
        let folder = store.folder();
        let failed = |error| format!("cannot start etcd in {}: {error}", folder.display());
        let directory = tempfile::Builder::new().prefix("etcd-").tempdir_in(&folder);
        let directory = directory.map_err(failed)?;
        // Both at once, so that they differ.
        let free = [TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0")];
        let mut endpoints = Vec::new();
        for listener in free {
            let address = listener.and_then(|listener| listener.local_addr()).map_err(failed)?;
            endpoints.push(address.to_string());
        }
        let [client, peer] = [0, 1].map(|nth| format!("http://{}", endpoints[nth]));
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .arg(directory.path())
            .args(["etcd", "--log-level=error", "--data-dir"])
            .arg(directory.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .arg(format!("--initial-cluster=default={peer}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(said) = guard.stdout.take() {
            BufReader::new(said).read_line(&mut String::new()).map_err(failed)?;
        }
        let endpoint = endpoints.swap_remove(0);
        let file_system = file_system(&folder);
        let server = Self { store, endpoint, file_system, guard, _directory: directory };
        let since = Instant::now();
        while TcpStream::connect(&server.endpoint).is_err() {
            if since.elapsed() > PATIENCE {
                return Err(format!("etcd does not listen on {}", server.endpoint));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    pub(super) fn store(&self) -> Store {
        self.store
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What its data is on.
    pub(super) fn describe(&self) -> String {
        format!("{}: {}", self.store.as_str(), self.file_system)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Which etcd it is.
///
/// # Errors
///
/// If there is none.
pub(super) fn version() -> Result<String, String> {
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
