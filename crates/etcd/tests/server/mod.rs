//! An etcd of the tests' own.

#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

mod cluster;

use std::{
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use navlock_core::{UserAgent, blocking::block_on_timeout};
use navlock_etcd::{EtcdOptions, EtcdReach};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) use self::cluster::Cluster;

/// How long anything may take before a test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Starts what is given to it, and kills it when its own standard input ends: with this process,
/// however that ends. Then it removes the directory that is named first, if one is.
const GUARD: &str = r#"directory=$1; shift; "$@" >/dev/null 2>&1 & pid=$!; echo $pid
    cat >/dev/null; kill -9 $pid 2>/dev/null; wait; [ -z "$directory" ] || rm -rf "$directory""#;

/// One node.
pub(crate) struct Server {
    directory: TempDir,
    client: u16,
    peer: u16,
    /// How it is spoken to: `http` or `https`.
    scheme: &'static str,
    /// What only this one is started with.
    flags: Vec<String>,
    running: Option<(Child, Pid)>,
    /// It ends with the process, and not before.
    is_shared: bool,
}

impl Server {
    pub(crate) fn start() -> Self {
        let [mut server] = Self::several();
        server.restart();
        server
    }

    /// One that speaks TLS, with these flags as well.
    pub(crate) fn start_with_tls(flags: impl IntoIterator<Item = String>) -> Self {
        let [mut server] = Self::several();
        server.scheme = "https";
        server.flags.extend(flags);
        server.restart();
        server
    }

    /// Some that are not started yet.
    fn several<const N: usize>() -> [Self; N] {
        let version = Command::new("etcd").arg("--version").stdout(Stdio::null()).status();
        assert!(
            version.is_ok_and(|status| status.success()),
            "this test needs `etcd` 3.4 or newer on PATH; install it (Debian: etcd-server)"
        );
        // All at once, so that they differ.
        let free = [(); N]
            .map(|()| [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port is free")));
        free.map(|listeners| {
            // Where nothing waits for a disk.
            let memory = Path::new("/dev/shm");
            let directory =
                if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
            let [client, peer] =
                listeners.map(|listener| listener.local_addr().expect("it is bound").port());
            Self {
                directory: directory.expect("there is room"),
                client,
                peer,
                scheme: "http",
                flags: vec![format!("--initial-cluster=default=http://127.0.0.1:{peer}")],
                running: None,
                is_shared: false,
            }
        })
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.client)
    }

    pub(crate) fn port(&self) -> u16 {
        self.client
    }

    fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer)
    }

    /// Kills it, if it runs, and starts it with what it has on disk.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let client = format!("{}://{}", self.scheme, self.endpoint());
        let peer = self.peer_url();
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .arg(if self.is_shared { self.directory.path() } else { Path::new("") })
            .args(["etcd", "--log-level=error", "--data-dir"])
            .arg(self.directory.path())
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(&self.flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(guard.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        self.running = Some((guard, pid));
        let since = Instant::now();
        while TcpStream::connect(self.endpoint()).is_err() {
            assert!(since.elapsed() < DEADLINE, "etcd does not listen");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn kill(&mut self) {
        if let Some((mut guard, pid)) = self.running.take() {
            let _ = kill_process(pid, Signal::KILL);
            drop(guard.stdin.take());
            guard.wait().unwrap();
        }
    }

    /// Loses all that it has on disk.
    pub(crate) fn wipe(&self) {
        assert!(self.running.is_none(), "it writes to it");
        std::fs::remove_dir_all(self.directory.path().join("member")).unwrap();
    }

    /// Saves what it has, in a file.
    pub(crate) fn backup(&self) -> PathBuf {
        let path = self.directory.path().with_extension("backup");
        self.etcdctl(&["snapshot", "save", &path.display().to_string()]).unwrap();
        path
    }

    /// Has on disk what was saved, and nothing else.
    pub(crate) fn restore(&self, backup: &Path) {
        self.wipe();
        let restored = self.directory.path().join("restored");
        let (peer, cluster) = (self.peer_url(), &self.flags[0]);
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore"])
            .arg(backup)
            .arg("--data-dir")
            .arg(&restored)
            .args(["--name=default", cluster, "--initial-advertise-peer-urls", &peer])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(restored.join("member"), self.directory.path().join("member")).unwrap();
        std::fs::remove_dir(restored).unwrap();
    }

    pub(crate) fn stop(&self) {
        kill_process(self.running.as_ref().unwrap().1, Signal::STOP).unwrap();
    }

    pub(crate) fn go_on(&self) {
        kill_process(self.running.as_ref().unwrap().1, Signal::CONT).unwrap();
    }

    /// A machine that is connected to it.
    pub(crate) fn machine(&self, options: impl FnOnce(EtcdOptions) -> EtcdOptions) -> UserAgent {
        connect(&options(EtcdOptions::new([self.endpoint()])))
    }

    /// What `etcdctl` prints when it is called so, or complains of.
    pub(crate) fn etcdctl(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", self.endpoint()))
            .args(arguments)
            .output()
            .expect("this test needs `etcdctl` on PATH; install it (Debian: etcd-client)");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Connects, once etcd answers.
pub(crate) fn connect(options: &EtcdOptions) -> UserAgent {
    let since = Instant::now();
    loop {
        let connected = block_on_timeout(EtcdReach::connect(options.clone()), DEADLINE);
        match connected.expect("to connect comes to an end") {
            Ok(reach) => return UserAgent::with_reach(reach),
            Err(error) => assert!(since.elapsed() < DEADLINE, "{error}"),
        }
    }
}

/// A machine that no other sees, on an etcd that all tests of this program share.
pub(crate) fn alone() -> UserAgent {
    shared().machine(|options| options.namespace(namespace()))
}

/// The etcd that all tests of this program share.
pub(crate) fn shared() -> &'static Server {
    static SERVER: LazyLock<Server> = LazyLock::new(|| {
        let [mut server] = Server::several();
        server.is_shared = true;
        server.restart();
        server
    });
    &SERVER
}

/// One that no other test uses.
pub(crate) fn namespace() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
