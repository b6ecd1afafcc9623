//! A PostgreSQL with a replica and a pooler, and the proxies by which machines reach them.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::chown,
    process::{Child, Stdio},
    time::Duration,
};

use navlock_testkit::{self as testkit, Port, Start};
use rustix::process::Signal;
use tempfile::TempDir;

use self::server::{Server, as_user, user};
use crate::{
    disturbance::With,
    events::{Events, now},
    history::{History, Interval, Trouble},
    judge::TIME_TO_LIVE,
    processes::{self, signal},
    proxy::{Cables, Proxy},
    sandbox::Sandbox,
};

#[path = "../../crates/postgres/tests/server/mod.rs"]
mod server;

/// How long a pooler may take to start.
const READY: Duration = Duration::from_secs(60);

/// How a disturbance of the server is undone.
enum Undo {
    Start,
    GoOn(Vec<i32>),
}

pub(crate) struct Postgres {
    primary: Server,
    /// It follows asynchronously, and takes the primary's place.
    replica: Server,
    pooler: Option<testkit::Server>,
    pooler_port: Port,
    /// Its settings, and what it has said.
    pooler_files: TempDir,
    /// From the pooler to the primary.
    behind_pooler: Proxy,
    /// Of each machine: to the primary, or to the pooler.
    pub(crate) cables: Cables,
    /// From those machines to the primary that call through the pooler and hear directly.
    listening: Proxy,
    disturbed: Option<(Undo, u64)>,
    /// A session whose snapshot keeps all rows, and until when.
    snapshot: Option<(Child, u64)>,
}

impl Postgres {
    /// Starts a server with its replica and a pooler, and tells the machines of them: two go there directly, one by the
    /// pooler, and one by the pooler without hearing of anything. If `may_own`, all machines but the first keep names.
    pub(crate) fn start(sandbox: &Sandbox, may_own: bool) -> io::Result<Self> {
        let primary = Server::start();
        let replica = primary.replica();
        let (behind_pooler, listening) = (Proxy::to(primary.port())?, Proxy::to(primary.port())?);
        let pooler_port = Port::take()?;
        let machines = 0..sandbox.machines.len();
        let port = |nth| if nth < 2 { primary.port() } else { pooler_port.number() };
        let proxies = machines.map(|nth| Proxy::to(port(nth))).collect::<io::Result<Vec<_>>>()?;
        let url = |port: u16| format!("\"postgres://navlock@127.0.0.1:{port}/postgres\"");
        for (nth, (machine, proxy)) in sandbox.machines.iter().zip(&proxies).enumerate() {
            let taken = if may_own { nth } else { 0 };
            let listen = if nth == 2 {
                format!("listen-url = {}\n", url(listening.port))
            } else {
                String::new()
            };
            let settings = format!(
                "[stores.main]\npostgres = {}\n{listen}time-to-live = {TIME_TO_LIVE}\nkeep-names = {taken}\n",
                url(proxy.port)
            );
            fs::write(&machine.config, settings)?;
        }
        let pooler_files = write_settings(behind_pooler.port, &pooler_port)?;
        let mut postgres = Self {
            primary,
            replica,
            pooler: None,
            pooler_port,
            pooler_files,
            behind_pooler,
            cables: Cables::new(proxies.into_iter().map(|proxy| vec![proxy]).collect()),
            listening,
            disturbed: None,
            snapshot: None,
        };
        postgres.start_pooler();
        Ok(postgres)
    }

    fn start_pooler(&mut self) {
        let words = as_user(&[
            "pgbouncer",
            "-q",
            &self.pooler_files.path().join("ini").display().to_string(),
        ]);
        let started = testkit::Server::start(&Start {
            words: &words,
            address: &self.pooler_port.to_string(),
            said: &self.pooler_files.path().join("said"),
            removed: None,
            timeout: READY,
        });
        self.pooler = Some(started.unwrap_or_else(|failed| panic!("pgbouncer: {failed}")));
    }

    /// Undoes the disturbances whose time is over.
    pub(crate) fn tick(&mut self, events: &Events, history: &mut History) {
        let at = now();
        if self.disturbed.as_ref().is_some_and(|(_, until)| *until <= at) {
            self.mend_server(events, history);
        }
        if self.snapshot.as_ref().is_some_and(|(_, until)| *until <= at) {
            self.end_snapshot();
        }
        self.cables.tick(at, events, history);
    }

    /// Undoes everything.
    pub(crate) fn mend(&mut self, events: &Events, history: &mut History) {
        self.cables.tick(u64::MAX, events, history);
        self.mend_server(events, history);
        self.end_snapshot();
    }

    fn mend_server(&mut self, events: &Events, history: &mut History) {
        let Some((undo, _)) = self.disturbed.take() else { return };
        match undo {
            Undo::Start => self.primary.restart(),
            Undo::GoOn(pids) => {
                for pid in pids {
                    signal(pid, Signal::CONT);
                }
            }
        }
        events.say(format_args!("the server is mended"));
        over(history);
    }

    fn end_snapshot(&mut self) {
        if let Some((mut session, _)) = self.snapshot.take() {
            let _ = session.kill();
            let _ = session.wait();
        }
    }

    /// The server is away for all machines.
    fn away(&mut self, undo: Undo, during: u64, history: &mut History) {
        history.troubles.push((Trouble::Cut, None, Interval::begin()));
        self.disturbed = Some((undo, now() + during));
    }

    /// Has the server lose its memory.
    pub(crate) fn crash(&mut self, with: &mut With<'_>) -> Option<()> {
        if self.disturbed.is_some() {
            return None;
        }
        with.events.say(format_args!("the server crashes for {}", with.during));
        forgotten(with.history);
        self.away(Undo::Start, with.during, with.history);
        self.primary.kill();
        Some(())
    }

    /// Stops all processes of the server.
    pub(crate) fn stop(&mut self, with: &mut With<'_>) -> Option<()> {
        if self.disturbed.is_some() {
            return None;
        }
        with.events.say(format_args!("the server stops for {}", with.during));
        let first = self.primary.pid()?;
        signal(first, Signal::STOP);
        let all: Vec<_> = processes::all()
            .into_iter()
            .filter(|&pid| processes::parent(pid) == Some(first))
            .collect();
        for &pid in &all {
            signal(pid, Signal::STOP);
        }
        let all = all.into_iter().chain([first]).collect();
        self.away(Undo::GoOn(all), with.during, with.history);
        Some(())
    }

    /// Ends one of the sessions in which it is asked for locks, wherever it is.
    pub(crate) fn end_session(&mut self, with: &mut With<'_>) -> Option<()> {
        if self.disturbed.is_some() {
            return None;
        }
        with.events.say(format_args!("a session of the server ends"));
        self.do_sql(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'navlock' \
             order by random() limit 1",
        )
    }

    pub(crate) fn kill_pooler(&mut self, with: &mut With<'_>) -> Option<()> {
        with.events.say(format_args!("the pooler is killed"));
        signal(self.pooler.as_ref()?.pid(), Signal::KILL);
        self.pooler = None;
        self.start_pooler();
        Some(())
    }

    /// Ends the primary for good, and has the replica take its place.
    pub(crate) fn promote(&mut self, with: &mut With<'_>) -> Option<()> {
        if self.disturbed.is_some() {
            return None;
        }
        with.events.say(format_args!("the replica is promoted"));
        with.history.troubles.push((Trouble::Cut, None, Interval::begin()));
        self.end_snapshot();
        forgotten(with.history);
        self.primary.kill();
        self.replica.do_sql("select pg_promote()");
        std::mem::swap(&mut self.primary, &mut self.replica);
        let direct = [0, 1].into_iter().flat_map(|machine| self.cables.of(machine));
        for proxy in direct.chain([&self.listening, &self.behind_pooler]) {
            proxy.lead_to(self.primary.port());
        }
        with.events.say(format_args!("the replica is the primary"));
        over(with.history);
        self.replica = self.primary.replica();
        with.events.say(format_args!("there is another replica"));
        Some(())
    }

    /// Has vacuum move all rows, or keeps vacuum from removing any for some time.
    pub(crate) fn vacuum(&mut self, with: &mut With<'_>) -> Option<()> {
        if self.disturbed.is_some() || self.snapshot.is_some() {
            return None;
        }
        if with.dice.chance(2) {
            with.events.say(format_args!("vacuum moves all rows"));
            return self.do_sql("vacuum full");
        }
        with.events.say(format_args!("a snapshot stays for {}", with.during));
        let mut session = self.primary.psql_command();
        let mut session = session.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().ok()?;
        let text = b"begin isolation level repeatable read; select count(*) from pg_class;\n";
        session.stdin.as_mut()?.write_all(text).ok()?;
        self.snapshot = Some((session, now() + 10 * with.during));
        Some(())
    }

    /// The keys of locks that it has.
    pub(crate) fn keys(&self) -> String {
        let output = self.primary.psql("select key from navlock.keys");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        text(&output.stdout) + &text(&output.stderr)
    }

    fn do_sql(&self, text: &str) -> Option<()> {
        self.primary.psql(text).status.success().then_some(())
    }
}

/// Writes the settings of a pooler that gives each transaction another session.
fn write_settings(server: u16, port: &Port) -> io::Result<TempDir> {
    let directory = tempfile::tempdir()?;
    let [settings, users] = ["ini", "users"].map(|name| directory.path().join(name));
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
         unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 4\n\
         server_login_retry = 1\n",
        port.number(),
        users.display()
    );
    fs::write(&settings, text)?;
    fs::write(&users, "\"navlock\" \"\"\n")?;
    if let Some((_, uid)) = user() {
        for path in [directory.path(), &settings, &users] {
            chown(path, Some(uid), Some(uid))?;
        }
    }
    Ok(directory)
}

/// Notes that the server has forgotten everything.
fn forgotten(history: &mut History) {
    let mut moment = Interval::begin();
    moment.end();
    history.troubles.push((Trouble::Forgotten, None, moment));
}

/// Within how many microseconds a pooler finds that the server is there again.
const FOUND: u64 = 1_500_000;

/// Notes that the server is there again.
fn over(history: &mut History) {
    history.over(Trouble::Cut, None, FOUND);
}
