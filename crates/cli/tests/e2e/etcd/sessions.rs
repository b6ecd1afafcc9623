//! Two brokers on one machine that stand for two machines, as the book says to try.

use navlock_testkit::Port;

use crate::{
    book::console::{WITH_ETCD, play, shell},
    book::sandbox_with_programs,
};

/// The address that the page has, where an etcd of this machine may listen.
const USUAL: &str = "127.0.0.1:2379";

#[test]
fn two_brokers_on_one_machine_share_locks_as_the_book_shows() {
    let sandbox = sandbox_with_programs();
    let [client, peer] = [(); 2].map(|()| Port::take().unwrap());
    let mut shell = shell(&sandbox);
    for (variable, port) in [
        ("ETCD_LISTEN_CLIENT_URLS", &client),
        ("ETCD_ADVERTISE_CLIENT_URLS", &client),
        ("ETCD_LISTEN_PEER_URLS", &peer),
        ("ETCD_INITIAL_ADVERTISE_PEER_URLS", &peer),
    ] {
        shell.env(variable, format!("http://{port}"));
    }
    shell.env("ETCD_INITIAL_CLUSTER", format!("default=http://{peer}"));
    shell.env("ETCDCTL_ENDPOINTS", client.to_string());
    play(WITH_ETCD, shell, |command| command.replace(USUAL, &client.to_string()));
}
