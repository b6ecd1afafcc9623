//! Through PgBouncer, which gives each transaction another session.

use std::{
    fs,
    os::unix::fs::chown,
    thread,
    time::{Duration, Instant},
};

use navlock_postgres::{PostgresOptions, check};
use navlock_testkit::{self as testkit, Port, Start};

use super::{exclusive, machines_with, until_waiting};
use crate::server::{DEADLINE, Server, as_user, user};

/// Who is not notified and does not ask would hear after a third of this.
const MINUTE: Duration = Duration::from_secs(60);

/// For how long a listener tries whether it hears itself.
const TIME: Duration = Duration::from_millis(500);

/// A pooler before this server.
struct Pooler {
    port: Port,
    _running: testkit::Server,
    _directory: tempfile::TempDir,
}

impl Pooler {
    fn start(server: &Server) -> Self {
        let (port, directory) = (Port::take().unwrap(), tempfile::tempdir().unwrap());
        let (settings, users) = (directory.path().join("ini"), directory.path().join("users"));
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = 2\n",
            server.port(),
            port.number(),
            users.display()
        );
        fs::write(&settings, text).unwrap();
        fs::write(&users, "\"navlock\" \"\"\n").unwrap();
        if let Some((_, uid)) = user() {
            for path in [directory.path(), &settings, &users] {
                chown(path, Some(uid), Some(uid)).unwrap();
            }
        }
        let words = as_user(&["pgbouncer", "-q", &settings.display().to_string()]);
        let running = testkit::Server::start(&Start {
            words: &words,
            address: &port.to_string(),
            said: &directory.path().join("said"),
            removed: None,
            timeout: DEADLINE,
        });
        let running = running.unwrap_or_else(|failed| panic!("pgbouncer at {port}: {failed}"));
        Self { port, _running: running, _directory: directory }
    }

    fn url(&self) -> String {
        format!("postgres://navlock@{}/postgres", self.port)
    }
}

/// Machines take turns, of which so many listen. Returns how long a handover takes at most.
fn take_turns(server: &Server, options: &PostgresOptions, listen: u32) -> Duration {
    let [a, b] = machines_with(options);
    let mut took = Duration::ZERO;
    for _ in 0..3 {
        let held = exclusive(&a, "db");
        let handed = thread::scope(|scope| {
            let next = scope.spawn(|| {
                let guard = exclusive(&b, "db");
                (Instant::now(), guard)
            });
            until_waiting(&a, 1);
            // It has long found out whether it hears.
            thread::sleep(2 * TIME);
            let listening = "select count(*) from pg_stat_activity where query like 'listen %'";
            assert_eq!(server.psql(listening).stdout, format!("{listen}\n").into_bytes());
            let since = Instant::now();
            drop(held);
            next.join().unwrap().0 - since
        });
        took = took.max(handed);
    }
    took
}

#[test]
fn machines_take_turns_through_a_pooler_that_gives_each_transaction_another_session() {
    let server = Server::start();
    let pooler = Pooler::start(&server);
    let direct = server.fresh().keep_names(0);
    let schema = direct.schema_name().to_owned();
    let options = PostgresOptions::new(pooler.url())
        .schema(schema)
        .keep_names(0)
        .time_to_live(MINUTE)
        .timeout(TIME);
    let are_notified =
        |options: &PostgresOptions| check(options).unwrap().calls.unwrap().are_notified;
    assert!(!are_notified(&options));
    let unheard = take_turns(&server, &options, 0);
    assert!(unheard < Duration::from_secs(8), "{unheard:?}");
    let options = options.listen_url(server.url());
    let since = Instant::now();
    while !are_notified(&options) {
        assert!(since.elapsed() < DEADLINE, "it is not notified");
    }
    let heard = take_turns(&server, &options, 2);
    assert!(heard < Duration::from_secs(8), "{heard:?}");
}
