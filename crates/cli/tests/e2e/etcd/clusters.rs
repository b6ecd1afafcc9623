//! Machines whose names are on two etcd clusters.

use std::fs::{self, File};

use super::{
    machines_of,
    server::{both, namespace},
};
use crate::{
    deadlock::{DEADLOCK, Participant},
    sandbox::{Holder, Sandbox, eventually},
};

/// Settings with these clusters.
fn settings(namespace: &str, clusters: &[(&str, &str)]) -> String {
    let each = clusters.iter().map(|(name, endpoint)| {
        format!("[[etcd.clusters]]\nname = \"{name}\"\nendpoints = [\"{endpoint}\"]\n")
    });
    let each: String = each.collect();
    format!("[etcd]\nnamespace = \"{namespace}\"\ntime-to-live = 5\n{each}")
}

#[test]
fn machines_share_names_on_two_clusters_and_say_which_one_a_name_is_on() {
    let namespace = namespace();
    let [east, west] = both().map(super::server::Server::endpoint);
    let two = settings(&namespace, &[("east", &east), ("west", &west)]);
    let [a, b] = [(); 2].map(|()| Sandbox::with_settings(&two));
    let names: Vec<_> = (0..6).map(|nth| format!("name-{nth}")).collect();
    let mut on = Vec::new();
    for name in &names {
        let _held = a.hold(&[name]);
        assert_eq!(b.code(&["run", "-n", name, "true"]), 1, "{name} is held");
        let doctor = b.written(&["doctor", "--name", name]);
        let said = doctor
            .lines()
            .find_map(|line| line.split_once(&format!("{name} in bucket default is on ")));
        let status = b.written(&["daemon", "status"]);
        let (_, place) = said.unwrap_or_else(|| panic!("{doctor}"));
        assert!(status.contains(&format!("{east} answers")), "{status}");
        assert!(
            status.contains(&format!("etcd clusters east at {east}; west at {west}")),
            "{status}"
        );
        assert!(
            doctor.contains("etcd clusters: east,west: all of them have this list"),
            "{doctor}"
        );
        on.push(place.to_owned());
    }
    on.sort_unstable();
    on.dedup();
    assert_eq!(on, ["cluster east", "cluster west"]);

    // A machine that knows only one of them is refused, with a reason.
    let alone = Sandbox::with_settings(&settings(&namespace, &[("east", &east)]));
    let said = alone.output(&["run", "db", "true"]);
    let said = said.stderr;
    assert!(said.contains("cluster west is in the list"), "{said}");
}

/// What doctor says of the list of clusters, and with which code it ends.
fn list(machine: &Sandbox) -> (String, Option<i32>) {
    let doctor = machine.output(&["doctor"]);
    let said = doctor.stdout;
    let line = said.lines().find(|line| line.contains("etcd clusters: "));
    (line.unwrap_or_else(|| panic!("{said}")).to_owned(), doctor.status.code())
}

#[test]
fn doctor_tells_of_a_list_of_clusters_what_who_wants_a_lock_is_told() {
    let namespace = namespace();
    let [east, west] = both().map(super::server::Server::endpoint);
    let two = settings(&namespace, &[("east", &east), ("west", &west)]);
    let [alone] = machines_of(&east, &namespace, "5");
    let ours = Sandbox::with_settings(&two);
    let refused = |machine: &Sandbox| {
        let said = machine.output(&["run", "db", "true"]).stderr;
        said.trim().strip_prefix("navlock: ").is_some() && said.contains("'navlock doctor' says")
    };

    // One machine uses a cluster alone, with settings from before there were several.
    let held = alone.hold(&["db"]);
    assert!(refused(&ours));
    let (said, code) = list(&ours);
    assert!(said.starts_with("fail") && said.contains("east is used by 1 machine alone"), "{said}");
    assert!(said.contains("navlock daemon stop"), "{said}");
    assert_eq!(code, Some(1));
    held.release();
    assert_eq!(alone.code(&["daemon", "stop"]), 0);
    let (said, code) = list(&ours);
    assert!(said.starts_with("ok") && said.contains("2 of 2 have no list yet"), "{said}");
    assert_eq!(code, Some(0));

    // A machine was killed that was about to begin with the same list, which makes no difference.
    let key = format!("{namespace}/clusters");
    both()[0].etcdctl(&["put", &key, "changing east east,west 0"]).unwrap();
    let (said, code) = list(&ours);
    assert!(said.starts_with("ok") && said.contains("2 of 2 have no list yet"), "{said}");
    assert!(!said.contains("another"), "{said}");
    assert_eq!(code, Some(0));

    // The list is there: a machine that knows only one endpoint is refused from now on.
    let held = ours.hold(&["db"]);
    assert!(refused(&alone));
    let (said, code) = list(&alone);
    assert!(said.starts_with("fail") && said.contains("is cluster east of several"), "{said}");
    assert!(said.contains("[[etcd.clusters]]"), "{said}");
    assert_eq!(code, Some(1));

    // A machine with another list is refused too, as long as one uses this list.
    let more = settings(&namespace, &[("east", &east), ("west", &west)]);
    let more = more.replacen("name = \"west\"", "retired = true\nname = \"west\"", 1);
    let theirs = Sandbox::with_settings(&more);
    assert!(refused(&theirs));
    let (said, code) = list(&theirs);
    assert!(
        said.starts_with("fail") && said.contains("used by 1 machine with another list"),
        "{said}"
    );
    assert!(said.contains("navlock daemon stop"), "{said}");
    assert_eq!(code, Some(1));
    held.release();
    assert_eq!(ours.code(&["daemon", "stop"]), 0);
    let (said, code) = list(&theirs);
    assert!(
        said.starts_with("ok") && said.contains("have another list, which nobody uses"),
        "{said}"
    );
    assert_eq!(code, Some(0));
}

#[test]
fn a_holder_is_told_why_no_broker_can_take_over() {
    let namespace = namespace();
    let [east, west] = both().map(super::server::Server::endpoint);
    let [machine] = machines_of(&east, &namespace, "15");
    let said = machine.path("said");
    let mut command = machine.navlock(&["run", "db", "sh", "-c", "echo $$; exec cat"]);
    command.stderr(File::create(&said).unwrap());
    let mut holder = Holder::start(command);
    holder.begun();
    machine.write_settings(&settings(&namespace, &[("east", &east), ("west", &west)]));
    assert_eq!(machine.code(&["daemon", "stop"]), 0);
    // The held lock is still that of a machine with the settings from before.
    let said = || fs::read_to_string(&said).unwrap();
    eventually("it is told", || said().contains("etcd cluster east is used by 1 machine alone"));
    let said = said();
    let first = said.lines().next().unwrap();
    assert!(
        first.starts_with("navlock: there is no broker, and etcd was last heard of "),
        "{said}"
    );
    assert!(first.contains("; \"db\" is yours for "), "{said}");
    assert_eq!(holder.ended().code(), Some(75));
}

#[test]
fn a_cycle_of_two_machines_over_two_clusters_is_told() {
    let namespace = namespace();
    let [east, west] = both().map(super::server::Server::endpoint);
    let two = settings(&namespace, &[("east", &east), ("west", &west)]);
    let [ours, theirs] = [(); 2].map(|()| Sandbox::with_settings(&two));
    let is_east =
        |name: &String| ours.written(&["doctor", "--name", name]).contains("is on cluster east");
    let names = (0..16).map(|nth| format!("name-{nth}"));
    let (east, west): (Vec<_>, Vec<_>) = names.partition(is_east);
    let (a, b) = (east.first().unwrap(), west.first().unwrap());
    // Which of them came last cannot be told by the clusters' revisions: the machines agree on one of them.
    let inner = |name| format!("$NAVLOCK run --deadlock-exit-code 7 {name} true");
    let mut first = Participant::new(&ours, &[a], &inner(b));
    let mut second = Participant::new(&theirs, &[b], &inner(a));
    first.go_and_wait(&ours);
    second.go();
    let mut ends = [first.end(), second.end()];
    ends.sort_by_key(|(code, _)| *code);
    let [(gone_on, _), (refused, said)] = ends;
    assert_eq!((gone_on, refused), (Some(0), Some(7)), "{said}");
    assert!(said.contains(DEADLOCK), "{said}");
}
