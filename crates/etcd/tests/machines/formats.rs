//! Brokers whose keys have different formats: neither would see the other's locks.

use navlock_core::{Error, blocking::block_on_timeout};
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
fn who_has_something_in_another_format_is_not_met_in_silence() {
    let namespace = namespace();
    let options = EtcdOptions::new([shared().endpoint()]).namespace(&*namespace);
    // What is in no format is in nobody's way, and hides nothing: these stand before and between the
    // others, more than are looked at together.
    for nth in 0..300 {
        put(&format!("{namespace}/0{nth}/something"), "");
    }
    for stray in ["1", "1+/x", "1-", "1x/something", "20x/something"] {
        put(&format!("{namespace}/{stray}"), "");
    }
    assert_eq!(refusal(&options), None);
    for format in ["1", "3", "21"] {
        let key = format!("{namespace}/{format}/default/l/db/h/x/somebody");
        put(&key, "");
        let said = refusal(&options).expect("it does not connect");
        assert!(said.contains(&format!("in format {format} ")) && said.contains(&key), "{said}");
        shared().etcdctl(&["del", &key]).unwrap();
        assert_eq!(refusal(&options), None);
    }
}

#[test]
fn who_has_nothing_yet_is_met_by_the_number_of_its_format() {
    let namespace = namespace();
    let options = EtcdOptions::new([shared().endpoint()]).namespace(&*namespace);
    let key = format!("{namespace}/format");
    // Somebody of another format has just begun.
    put(&key, "3");
    let said = refusal(&options).expect("it does not connect");
    assert!(said.contains("in format 3 ") && said.contains(&key), "{said}");
    // As it says.
    assert!(said.contains("navlock evict --key"), "{said}");
    evict(&options, &Evict::Key(key.as_bytes())).unwrap();
    assert_eq!(refusal(&options), None);
    // It stays, and is nothing that stands in the way.
    assert_eq!(shared().etcdctl(&["get", &key]).unwrap(), format!("{key}\n2\n"));
    assert_eq!(strays(&options).unwrap(), []);
    drop(exclusive(&connect(&options).lock_manager("bucket"), "format"));
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
    while said() != "navlock/format\n2\n" {
        assert!(since.elapsed() < DEADLINE, "{}", said());
    }
}
