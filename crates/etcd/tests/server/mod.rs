//! An etcd of the tests' own.

#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

mod cluster;

use std::{
    env,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use navlock_core::{Error, UserAgent, blocking::block_on_timeout};
use navlock_etcd::{EtcdOptions, EtcdReach};
use navlock_testkit::{self as testkit, Port, Start};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) use self::cluster::Cluster;

/// How long anything may take before a test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// One node.
pub(crate) struct Server {
    directory: TempDir,
    client: Port,
    peer: Port,
    /// How it is spoken to: `http` or `https`.
    scheme: &'static str,
    /// What only this one is started with.
    flags: Vec<String>,
    running: Option<testkit::Server>,
    /// It ends with the process, and not before.
    is_shared: bool,
}

impl Server {
    pub(crate) fn start() -> Self {
        let [mut server] = Self::several();
        server.restart();
        server
    }

    /// One with these flags as well.
    pub(crate) fn start_with(flags: impl IntoIterator<Item = String>) -> Self {
        let [mut server] = Self::several();
        server.flags.extend(flags);
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
        [(); N].map(|()| {
            // Where nothing waits for a disk.
            let memory = Path::new("/dev/shm");
            let directory =
                if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
            let [client, peer] = [(); 2].map(|()| Port::take().expect("a port is free"));
            Self {
                directory: directory.expect("there is room"),
                flags: vec![format!("--initial-cluster=default=http://{peer}")],
                client,
                peer,
                scheme: "http",
                running: None,
                is_shared: false,
            }
        })
    }

    pub(crate) fn endpoint(&self) -> String {
        self.client.to_string()
    }

    pub(crate) fn port(&self) -> u16 {
        self.client.number()
    }

    fn peer_url(&self) -> String {
        format!("http://{}", self.peer)
    }

    /// Kills it, if it runs, and starts it with what it has on disk.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let client = format!("{}://{}", self.scheme, self.endpoint());
        let peer = self.peer_url();
        let directory = self.directory.path();
        let mut words = vec![
            "etcd".to_owned(),
            "--log-level=error".to_owned(),
            format!("--data-dir={}", self.data().display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
        ];
        words.extend(self.flags.iter().cloned());
        let started = testkit::Server::start(&Start {
            words: &words,
            address: &self.endpoint(),
            said: &directory.join("said"),
            removed: self.is_shared.then_some(directory),
            timeout: DEADLINE,
        });
        self.running = Some(started.unwrap_or_else(|failed| panic!("etcd at {client}: {failed}")));
    }

    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    /// The folder of what it has on disk.
    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Loses all that it has on disk.
    pub(crate) fn wipe(&self) {
        assert!(self.running.is_none(), "it writes to it");
        std::fs::remove_dir_all(self.data().join("member")).unwrap();
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
        std::fs::rename(restored.join("member"), self.data().join("member")).unwrap();
        std::fs::remove_dir(restored).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.running.as_ref().unwrap().pid()).unwrap()
    }

    pub(crate) fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
    }

    pub(crate) fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// What it counts by this name; 0 if it does not, as before the first time.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(self.endpoint()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let of = |line: &str| {
            let number = line.strip_prefix(name)?.strip_prefix(' ')?;
            number.trim().parse::<f64>().ok()
        };
        let found = text.lines().find_map(of).unwrap_or_default();
        // It has far fewer than 2^53.
        format!("{found}").parse().unwrap()
    }

    /// Whether a lease is over in less than a second.
    pub(crate) fn is_in_its_last_second(&self, lease: i64, _namespace: &str) -> bool {
        let lease = format!("{lease:x}");
        self.etcdctl(&["lease", "timetolive", &lease]).unwrap().contains("remaining(0s)")
    }

    /// A machine that is connected to it.
    pub(crate) fn machine(&self, options: impl FnOnce(EtcdOptions) -> EtcdOptions) -> UserAgent {
        connect(&options(EtcdOptions::new([self.endpoint()])))
    }

    /// The same until it does not complain any more: for what a cluster does only when it is healthy.
    pub(crate) fn until_done(&self, arguments: &[&str]) -> String {
        let since = Instant::now();
        loop {
            match self.etcdctl(arguments) {
                Ok(said) => return said,
                Err(why) => assert!(since.elapsed() < DEADLINE, "{arguments:?}: {why}"),
            }
            thread::sleep(Duration::from_millis(100));
        }
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

/// Etcd's own proxy, which gathers what several clients watch.
pub(crate) struct GrpcProxy {
    port: Port,
    _running: testkit::Server,
    _directory: TempDir,
}

impl GrpcProxy {
    pub(crate) fn of(server: &Server) -> Self {
        let (port, directory) = (Port::take().expect("a port is free"), tempfile::tempdir());
        let directory = directory.expect("there is room");
        let words = ["etcd", "grpc-proxy", "start", "--endpoints", &server.endpoint()];
        let mut words: Vec<_> = words.into_iter().map(str::to_owned).collect();
        words.push(format!("--listen-addr={port}"));
        words.push(format!("--data-dir={}", directory.path().join("data").display()));
        let started = testkit::Server::start(&Start {
            words: &words,
            address: &port.to_string(),
            said: &directory.path().join("said"),
            removed: None,
            timeout: DEADLINE,
        });
        let running = started.unwrap_or_else(|failed| panic!("etcd's proxy at {port}: {failed}"));
        Self { port, _running: running, _directory: directory }
    }

    pub(crate) fn endpoint(&self) -> String {
        self.port.to_string()
    }
}

/// After how many takes every machine owns a name, if it is set: all tests hold also for names
/// that are owned after the first (`1`). They are of names that are owned where they say so, and so
/// never (`0`) is not for all.
const KEEP: &str = "NAVLOCK_TEST_KEEP_NAMES";

/// What that says.
pub(crate) fn keeps() -> Option<u32> {
    let taken = env::var(KEEP).ok()?;
    Some(taken.parse().unwrap_or_else(|error| panic!("{KEEP}={taken}: {error}")))
}

/// With this said as well.
pub(crate) fn as_told(options: &EtcdOptions) -> EtcdOptions {
    let options = options.clone();
    match keeps() {
        Some(taken) => options.keep_names(taken),
        None => options,
    }
}

/// Connects, once etcd answers.
pub(crate) fn connect(options: &EtcdOptions) -> UserAgent {
    let options = as_told(options);
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

/// The same, where each name stays the machine's that was taken.
pub(crate) fn owning() -> UserAgent {
    shared().machine(|options| options.namespace(namespace()).keep_names(1))
}

fn started_once() -> Server {
    let [mut server] = Server::several();
    server.is_shared = true;
    server.restart();
    server
}

/// The etcd that all tests of this program share.
pub(crate) fn shared() -> &'static Server {
    static SERVER: LazyLock<Server> = LazyLock::new(started_once);
    &SERVER
}

/// The options for this endpoint and namespace.
pub(crate) fn options(endpoint: &str, namespace: &str) -> EtcdOptions {
    EtcdOptions::new([endpoint]).namespace(namespace)
}

/// One that no other test uses.
pub(crate) fn namespace() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The revision of etcd: how often it was written to.
pub(crate) fn revision(server: &Server) -> u64 {
    let said = server.etcdctl(&["get", "nothing", "--write-out=json"]).unwrap();
    let at = said.find("\"revision\":").expect("there is a revision") + 11;
    let revision: String = said[at..].chars().take_while(char::is_ascii_digit).collect();
    revision.parse().unwrap()
}
