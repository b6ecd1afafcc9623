//! Rows that vacuum cannot remove.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{exclusive, machines_with, soon};
use crate::server::{DEADLINE, Server};

/// A transaction of somebody else that stays open keeps each version of each row. Locks cost no more for that, and none is
/// lost.
#[test]
fn an_old_snapshot_does_not_slow_locks_down() {
    let server = Server::start();
    let options = server.fresh().keep_names(0);
    let schema = options.schema_name().to_owned();
    let [locks, others] = machines_with(&options);
    let held = exclusive(&locks, "held");
    let readers: Vec<_> = [&locks, &others].map(|locks| soon(locks.lock("read").shared())).into();
    thread::scope(|scope| {
        let old = scope.spawn(|| {
            server.psql("begin isolation level repeatable read; select count(*) from pg_class; select pg_sleep(60)")
        });
        let since = Instant::now();
        let end =
            "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'";
        while server.do_sql("select count(*) from pg_stat_activity where wait_event = 'PgSleep'")
            != "1"
        {
            assert!(since.elapsed() < DEADLINE, "it does not sleep");
        }
        // As many versions of the row as are written, and far fewer after that.
        let size = || {
            let size = server.do_sql(&format!("select pg_relation_size('{schema}.present')"));
            size.parse::<u64>().unwrap()
        };
        let most = 1 << 17;
        while size() < most {
            (0..100).for_each(|_| drop(exclusive(&locks, "db")));
            assert!(since.elapsed() < 2 * DEADLINE, "it does not grow");
        }
        while size() >= most {
            drop(exclusive(&others, "db"));
            assert!(since.elapsed() < 3 * DEADLINE, "it does not shrink");
            thread::sleep(Duration::from_millis(50));
        }
        assert!(soon(others.lock("held").if_available()).unwrap().is_none());
        assert!(soon(others.lock("read").if_available()).unwrap().is_none());
        assert!(!held.is_lost(), "{readers:?}");
        let token = held.fencing_token();
        drop((held, readers));
        assert!(exclusive(&others, "held").fencing_token() > token);
        drop(exclusive(&others, "read"));
        server.do_sql(end);
        assert!(!old.join().unwrap().status.success());
    });
}
