//! Brokers whose keys have different formats: neither would see the other's locks.

use navlock_core::{Error, LockManager, blocking::block_on_timeout};
use navlock_etcd::{EtcdOptions, EtcdReach, Evict, evict, strays};

use super::{exclusive, reset};
use crate::server::{DEADLINE, Server, connect, namespace, shared};

fn put(key: &str, value: &str) {
    shared().etcdctl(&["put", key, value]).unwrap();
}

/// Why one cannot connect, if so.
fn refusal(options: &EtcdOptions) -> Option<String> {
    let connected = block_on_timeout(EtcdReach::connect(options.clone()), DEADLINE);
    let refused = connected.expect("it ends").err()?;
    assert!(matches!(refused, Error::Refused(_)), "{refused:?}");
    Some(refused.to_string())
}

#[test]
fn a_key_in_another_format_is_a_reason_to_refuse_the_connection() {
    let namespace = namespace();
    let options = EtcdOptions::new([shared().endpoint()]).namespace(&*namespace);
    // What is in no format is in nobody's way, and hides nothing: these stand before and between the
    // others, more than are looked at together.
    for nth in 0..300 {
        put(&format!("{namespace}/0{nth}/something"), "");
    }
    for stray in ["1", "1+/x", "1-", "1x/something", "50x/something", "60x/something"] {
        put(&format!("{namespace}/{stray}"), "");
    }
    assert_eq!(refusal(&options), None);
    for format in ["1", "2", "3", "4", "5", "51", "61"] {
        let key = format!("{namespace}/{format}/default/l/db/h/x/somebody");
        put(&key, "");
        let said = refusal(&options).expect("it does not connect");
        assert!(said.contains(&format!("in format {format} ")) && said.contains(&key), "{said}");
        shared().etcdctl(&["del", &key]).unwrap();
        assert_eq!(refusal(&options), None);
    }
}

#[test]
fn a_machine_without_keys_is_noticed_by_the_number_of_its_format() {
    let namespace = namespace();
    let options = EtcdOptions::new([shared().endpoint()]).namespace(&*namespace);
    let key = format!("{namespace}/format");
    // Somebody of another format has just begun.
    put(&key, "2");
    let said = refusal(&options).expect("it does not connect");
    assert!(said.contains("in format 2 ") && said.contains(&key), "{said}");
    // As it says.
    assert!(said.contains("navlock evict --key"), "{said}");
    evict(&options, &Evict::Key(key.as_bytes())).unwrap();
    assert_eq!(refusal(&options), None);
    let said = || shared().etcdctl(&["get", &key]).unwrap();
    assert_eq!(said(), "", "it has only looked");
    drop(exclusive(&connect(&options).lock_manager("bucket"), "format"));
    // It stays, and is nothing that stands in the way.
    assert_eq!(said(), format!("{key}\n6\n"));
    assert_eq!(strays(&options).unwrap(), []);
    assert_eq!(refusal(&options), None);
}

#[test]
fn the_number_of_the_format_is_said_again_when_etcd_has_lost_its_data() {
    let mut server = Server::start();
    let locks = server.machine(|options| options).lock_manager("bucket");
    let guard = exclusive(&locks, "db");
    reset::lose_all_data(&mut server);
    super::soon(guard.lost());
    drop(exclusive(&locks, "db"));
    let said = || server.etcdctl(&["get", "navlock/format"]).unwrap();
    let since = std::time::Instant::now();
    while said() != "navlock/format\n6\n" {
        assert!(since.elapsed() < DEADLINE, "{}", said());
    }
}

/// Nothing is locked, because others have another format. As after the loss of its etcd, the program can
/// do nothing about it.
#[track_caller]
fn is_refused(locks: &LockManager) {
    let error = super::soon(locks.lock("db")).expect_err("neither sees the other's locks");
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    assert!(error.to_string().contains("in format 2 "), "{error}");
}

#[test]
fn a_machine_that_began_in_another_format_after_a_loss_of_all_data_is_noticed() {
    let mut server = Server::start();
    let locks = server.machine(|options| options).lock_manager("bucket");
    let guard = exclusive(&locks, "db");
    reset::lose_all_data(&mut server);
    super::soon(guard.lost());
    server.etcdctl(&["put", "navlock/format", "2"]).unwrap();
    is_refused(&locks);
}

#[test]
fn a_machine_that_could_not_write_its_format_writes_it_before_it_takes_a_lock() {
    let server = Server::start();
    let as_root = |arguments: &[&str]| {
        let arguments = [&["--user=root:secret"], arguments].concat();
        server.etcdctl(&arguments).unwrap()
    };
    for arguments in [
        &["user", "add", "root:secret"][..],
        &["user", "add", "locker:pass"],
        &["role", "add", "locks"],
        &["role", "grant-permission", "locks", "read", "navlock/", "--prefix"],
        &["role", "grant-permission", "locks", "readwrite", "navlock/6/", "--prefix"],
        &["user", "grant-role", "locker", "locks"],
        &["auth", "enable"],
    ] {
        server.etcdctl(arguments).unwrap();
    }
    let options = EtcdOptions::new([server.endpoint()]).user("locker", "pass");
    let locks = connect(&options).lock_manager("bucket");
    // It may look.
    assert_eq!(super::state(&locks), (vec![], vec![]));
    let error = super::soon(locks.lock("db")).expect_err("others would not know of it");
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    // Whoever comes first.
    as_root(&["put", "navlock/format", "2"]);
    is_refused(&locks);
    as_root(&["put", "navlock/format", "6"]);
    drop(exclusive(&locks, "db"));
}
