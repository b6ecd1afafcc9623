//! A PostgreSQL of the tests' own.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use navlock_core::{UserAgent, blocking::block_on_timeout};
use navlock_postgres::{PostgresOptions, init, postgres};
use navlock_testkit::{self as testkit, Port, Start};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long anything may take before a test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// One server.
pub(crate) struct Server {
    directory: TempDir,
    port: Port,
    running: Option<testkit::Server>,
    /// It ends with the process, and not before.
    is_shared: bool,
}

impl Server {
    /// One that is set up in the usual schema.
    pub(crate) fn start() -> Self {
        let mut server = Self::new(false);
        server.restart();
        init(&options(&server.endpoint(), "navlock")).expect("it can be set up");
        server
    }

    /// Whether a lease is over in less than a second.
    pub(crate) fn is_in_its_last_second(&self, lease: i64, schema: &str) -> bool {
        let left = format!(
            "select (l ->> 0)::int - (l ->> 1)::int < 1000 from {schema}.lease_of({lease}) l"
        );
        self.psql(&left).stdout == b"t\n"
    }

    /// A server that follows this one, and has so far what this one has.
    pub(crate) fn replica(&self) -> Self {
        let mut replica = Self::empty(false);
        let (data, port) = (replica.data().display().to_string(), self.port().to_string());
        Self::make(&[
            &program("pg_basebackup"),
            "--host=127.0.0.1",
            &format!("--port={port}"),
            "--username=navlock",
            &format!("--pgdata={data}"),
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
        ]);
        replica.restart();
        replica
    }

    fn new(is_shared: bool) -> Self {
        let server = Self::empty(is_shared);
        Self::make(&[
            &program("initdb"),
            &format!("--pgdata={}", server.data().display()),
            "--username=navlock",
            "--auth=trust",
            "--no-sync",
            "--no-locale",
            "--encoding=UTF8",
        ]);
        server
    }

    /// Makes its data by these words.
    fn make(words: &[&str]) {
        let words = as_user(words);
        let made = Command::new(&words[0]).args(&words[1..]).output().expect("it is there");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn empty(is_shared: bool) -> Self {
        // Where nothing waits for a disk.
        let memory = Path::new("/dev/shm");
        let directory =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let (directory, port) =
            (directory.expect("there is room"), Port::take().expect("a port is free"));
        if let Some((_, user)) = user() {
            chown(directory.path(), Some(user), Some(user)).expect("root may do that");
        }
        Self { directory, port, running: None, is_shared }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Kills it, if it runs, and starts it with what it has on disk.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let words = as_user(&[
            &program("postgres"),
            "-D",
            &self.data().display().to_string(),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            &format!("port={}", self.port.number()),
            "-c",
            "unix_socket_directories=",
            // The tests of all kinds connect at once.
            "-c",
            "max_connections=400",
            // Where it is removed with the rest.
            "-c",
            "dynamic_shared_memory_type=mmap",
            // What has to survive, survives: the machine does not crash.
            "-c",
            "fsync=off",
        ]);
        let said = self.directory.path().join("said");
        let started = testkit::Server::start(&Start {
            words: &words,
            address: &self.port.to_string(),
            said: &said,
            removed: self.is_shared.then_some(self.directory.path()),
            timeout: DEADLINE,
        });
        self.running =
            Some(started.unwrap_or_else(|failed| panic!("PostgreSQL at {}: {failed}", self.port)));
        self.until_it_answers();
    }

    /// Has it speak TLS with this certificate and its key, to clients of this authority, and lets them in by these
    /// rules.
    pub(crate) fn encrypt(&self, certificate: &str, key: &str, authority: &str, rules: &str) {
        for (name, text) in [
            ("own.pem", certificate),
            ("own.key", key),
            ("authority.pem", authority),
            ("pg_hba.conf", rules),
        ] {
            let file = self.data().join(name);
            fs::write(&file, text).expect("there is room");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
            if let Some((_, user)) = user() {
                chown(file, Some(user), Some(user)).expect("root may do that");
            }
        }
        for setting in [
            "ssl_cert_file = 'own.pem'",
            "ssl_key_file = 'own.key'",
            "ssl_ca_file = 'authority.pem'",
            "ssl = on",
        ] {
            self.do_sql(&format!("alter system set {setting}"));
        }
        self.do_sql("select pg_reload_conf()");
    }

    pub(crate) fn do_sql(&self, text: &str) -> String {
        let done = self.psql(text);
        assert!(done.status.success(), "{text}: {done:?}");
        String::from_utf8(done.stdout).expect("it is text").trim_end().to_owned()
    }

    /// It listens before it is ready.
    fn until_it_answers(&self) {
        let since = Instant::now();
        while !self.psql("select 1").status.success() {
            assert!(since.elapsed() < DEADLINE, "{:?}", self.psql("select 1"));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Has it end like a machine that crashes.
    pub(crate) fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            // All its processes end at once, and not only the first.
            let _ = kill_process(Pid::from_raw(running.pid()).expect("it runs"), Signal::QUIT);
            let pid = self.data().join("postmaster.pid");
            let since = Instant::now();
            while pid.exists() && since.elapsed() < DEADLINE {
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// The first of its processes, which is the parent of the others.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.running.as_ref().map(testkit::Server::pid)
    }

    pub(crate) fn psql(&self, text: &str) -> std::process::Output {
        self.psql_command().args(["-c", text]).output().expect("it is there")
    }

    /// A `psql` that is connected to it.
    pub(crate) fn psql_command(&self) -> Command {
        let mut command = Command::new(program("psql"));
        command
            .args(["-h", "127.0.0.1", "-p", &self.port.number().to_string(), "-U", "navlock"])
            .args(["-d", "postgres", "-At"]);
        command
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://navlock@{}/postgres", self.endpoint())
    }

    pub(crate) fn endpoint(&self) -> String {
        self.port.to_string()
    }

    /// Options with a schema of their own, which is set up.
    pub(crate) fn fresh(&self) -> PostgresOptions {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let schema = format!("s{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let options = options(&self.endpoint(), &schema);
        init(&options).expect("it can be set up");
        options
    }
}

/// The user and group of the server, if we are root: PostgreSQL refuses to run as root.
pub(crate) fn user() -> Option<(String, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let of = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        Some((name.to_owned(), line.split(':').nth(2)?.parse().ok()?))
    };
    of("postgres").or_else(|| of("nobody"))
}

/// These words, run by the user of the server.
pub(crate) fn as_user(words: &[&str]) -> Vec<String> {
    let mut all = match user() {
        Some((_, uid)) => vec![
            "setpriv".to_owned(),
            format!("--reuid={uid}"),
            format!("--regid={uid}"),
            "--clear-groups".to_owned(),
            "--".to_owned(),
        ],
        None => Vec::new(),
    };
    all.extend(words.iter().map(|&word| word.to_owned()));
    all
}

/// One of the programs of PostgreSQL: the newest, if Debian has several versions side by side.
fn program(name: &str) -> String {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut there: Vec<_> = versions.map(|version| version.path().join("bin").join(name)).collect();
    there.retain(|path| path.exists());
    there.sort();
    there.pop().map_or_else(|| name.to_owned(), |path| path.display().to_string())
}

static SHARED: LazyLock<Server> = LazyLock::new(|| {
    let mut server = Server::new(true);
    server.restart();
    server
});

/// One that other tests use as well.
pub(crate) fn shared() -> &'static Server {
    &SHARED
}

/// The options for this endpoint and schema.
pub(crate) fn options(endpoint: &str, schema: &str) -> PostgresOptions {
    PostgresOptions::new(format!("postgres://navlock@{endpoint}/postgres")).schema(schema)
}

/// A schema of the shared server that no other test uses.
pub(crate) fn namespace() -> String {
    SHARED.fresh().schema_name().to_owned()
}

/// A user agent that is alone.
pub(crate) fn alone() -> UserAgent {
    connect(&SHARED.fresh().keep_names(0))
}

/// The same, which owns each name at once.
pub(crate) fn owning() -> UserAgent {
    connect(&SHARED.fresh().keep_names(1))
}

pub(crate) fn connect(options: &PostgresOptions) -> UserAgent {
    let connected = block_on_timeout(postgres(options.clone()), DEADLINE);
    connected.expect("it is in time").expect("it can be reached")
}
