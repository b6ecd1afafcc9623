//! Machines whose names are on two etcd clusters.

use super::server::{both, namespace};
use crate::{
    deadlock::{DEADLOCK, Party},
    sandbox::Sandbox,
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
        let status = b.written(&["daemon", "status", "--name", name]);
        let (_, place) = said.unwrap_or_else(|| panic!("{doctor}"));
        assert!(status.contains(&format!("in bucket default is on {place}")), "{status}");
        assert!(status.contains(&format!("{east} answers")), "{status}");
        assert!(
            doctor.contains("etcd clusters: east,west: all of them have this list"),
            "{doctor}"
        );
        on.push(place.to_owned());
    }
    on.sort_unstable();
    on.dedup();
    assert_eq!(on, ["cluster east", "cluster west"]);

    // Who knows of one of them only is refused, with a reason.
    let alone = Sandbox::with_settings(&settings(&namespace, &[("east", &east)]));
    let said = alone.output(&["run", "db", "true"]);
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("cluster west is in the list"), "{said}");
}

#[test]
fn a_circle_of_two_machines_over_two_clusters_is_told() {
    let namespace = namespace();
    let [east, west] = both().map(super::server::Server::endpoint);
    let two = settings(&namespace, &[("east", &east), ("west", &west)]);
    let [ours, theirs] = [(); 2].map(|()| Sandbox::with_settings(&two));
    let is_east =
        |name: &String| ours.written(&["doctor", "--name", name]).contains("is on cluster east");
    let names = (0..16).map(|nth| format!("name-{nth}"));
    let (east, west): (Vec<_>, Vec<_>) = names.partition(is_east);
    let (a, b) = (east.first().unwrap(), west.first().unwrap());
    let mut first = Party::new(&ours, &[a], &format!("$NAVLOCK run {b} true"));
    let mut second =
        Party::new(&theirs, &[b], &format!("$NAVLOCK run --deadlock-exit-code 7 {a} true"));
    first.go_and_wait(&ours);
    second.go();
    let (code, said) = second.end();
    assert_eq!(code, Some(7), "{said}");
    assert!(said.contains(DEADLOCK), "{said}");
    let (code, said) = first.end();
    assert_eq!(code, Some(0), "{said}");
}
