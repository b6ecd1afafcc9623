//! `navlock evict`.

use super::{machines, server::shared};
use crate::sandbox::Sandbox;

#[test]
fn a_stray_key_that_blocks_a_name_is_shown_named_and_evicted() {
    let [machine] = machines();
    let reach = machine.written(&["daemon", "start"]) + &machine.written(&["daemon", "status"]);
    let (_, namespace) = reach.split_once(", namespace ").unwrap();
    let namespace = namespace.split_whitespace().next().unwrap();
    let key = format!("{namespace}/6/default/l/db/h/x/mine");
    shared().etcdctl(&["put", &key, ""]).unwrap();
    assert_eq!(machine.code(&["run", "-n", "db", "true"]), 1);
    let shown = machine.written(&["query", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["state"], "held");
    assert!(shown["why"].as_str().unwrap().contains(&key), "{shown}");
    let doctor = machine.output(&["doctor"]);
    let said = doctor.stdout;
    assert!(said.contains(&format!("navlock evict --key '{key}'")), "{said}");
    let client = shown["clientId"].as_str().unwrap();
    assert_eq!(machine.written(&["evict", "db", client]), format!("removed {key}\n"));
    assert_eq!(machine.code(&["run", "-n", "db", "true"]), 0);
    assert_eq!(machine.code(&["evict", "--key", &key]), 1);
}

#[test]
fn the_page_takes_a_lock_of_another_machine_from_those_alone_whom_it_has_shown() {
    let [here, there] = machines();
    // A broker is not asked for buckets that nobody uses on its machine.
    let ours = here.hold(&["ours"]);
    crate::web::steals_what_was_seen(&here, &there);
    ours.release();
}

#[test]
fn without_etcd_there_is_nothing_to_evict() {
    let machine = Sandbox::with_settings("");
    assert_eq!(machine.code(&["evict", "--key", "navlock/x"]), 64);
}
