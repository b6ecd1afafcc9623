//! `navlock doctor` with an etcd.

use super::{
    machines, machines_of, machines_with,
    server::{Server, namespace, shared},
};
use crate::sandbox::{Sandbox, eventually};

/// What doctor says of each thing, as level and rest, and its exit code.
fn checks(sandbox: &Sandbox) -> (Vec<(String, String)>, i32) {
    let output = sandbox.output(&["doctor"]);
    let said = &output.stdout;
    let line = |line: &str| {
        let (level, rest) = line.split_once(' ').unwrap();
        (level.to_owned(), rest.trim_start().to_owned())
    };
    (said.lines().map(line).collect(), output.code().unwrap())
}

fn of<'a>(what: &str, checks: &'a [(String, String)]) -> (&'a str, &'a str) {
    let found = checks.iter().find(|(_, said)| said.starts_with(what));
    let (level, said) = found.unwrap_or_else(|| panic!("no {what}: {checks:?}"));
    (level, said)
}

#[test]
fn an_etcd_that_answers_is_shown_with_its_release_and_its_speed() {
    let [machine] = machines_with("5");
    let (checks, code) = checks(&machine);
    assert_eq!(code, 0, "{checks:?}");
    assert!(of("settings: those in", &checks).1.ends_with("config.toml"));
    let (level, said) = of(&format!("etcd {}", shared().endpoint()), &checks);
    // The level depends on the release that is installed here.
    assert!(["ok", "warn"].contains(&level), "{said}");
    assert!(said.contains("of release 3."), "{said}");
    let (_, said) = of("etcd writes", &checks);
    assert!(said.contains("(median); locks are lost 5 s after"), "{said}");
    assert_eq!(machine.query(), [""; 0]);
}

#[test]
fn an_endpoint_without_an_etcd_fails_or_is_warned_of_if_there_are_others() {
    let nobody = navlock_testkit::Port::take().unwrap();
    for (others, level, code) in [(String::new(), "fail", 1), (shared().endpoint(), "warn", 0)] {
        let comma = if others.is_empty() { "" } else { ", " };
        let other = if others.is_empty() { others } else { format!("\"{others}\"") };
        let settings = format!("[stores.main]\netcd = [\"{nobody}\"{comma}{other}]\n");
        let (checks, exit) = checks(&Sandbox::with_settings(&settings));
        let (found, said) = of(&format!("etcd {nobody}"), &checks);
        assert_eq!((found, exit), (level, code), "{checks:?}");
        assert!(said.contains("cannot reach etcd"), "{said}");
        assert!(said.contains("start it, or mend the endpoint"), "{said}");
    }
}

/// The reach of the locks, as the broker names it for people.
fn shown_reach(machine: &Sandbox) -> String {
    let said = machine.written(&["daemon", "status"]);
    let reach = said.lines().find_map(|line| line.strip_prefix("reach "));
    reach.unwrap_or_else(|| panic!("{said}")).trim().to_owned()
}

#[test]
fn a_broker_says_how_far_its_locks_are_seen() {
    let [machine] = machines();
    assert_eq!(machine.code(&["daemon", "start"]), 0);
    let reach = format!("etcd at {}, namespace ", shared().endpoint());
    assert!(shown_reach(&machine).starts_with(&reach), "{}", shown_reach(&machine));
    let json: serde_json::Value =
        serde_json::from_str(&machine.written(&["daemon", "status", "--json"])).unwrap();
    assert!(json["reach"].as_str().unwrap().starts_with(&reach), "{json}");
    let (checks, code) = checks(&machine);
    assert_eq!(code, 0, "{checks:?}");
    assert!(!checks.iter().any(|(_, said)| said.contains("the broker that runs")), "{checks:?}");
}

#[test]
fn locks_from_before_a_bucket_moved_are_warned_of() {
    let machine = Sandbox::with_buckets("");
    let holder = machine.hold(&["db"]);
    assert_eq!(shown_reach(&machine), "this machine");
    machine.write_settings(&format!(
        "socket = {:?}\n[buckets.'*']\nstore = 'main'\n[stores.main]\netcd = [\"{}\"]\n",
        machine.socket(),
        shared().endpoint()
    ));
    let (moved, code) = checks(&machine);
    assert_eq!(code, 0, "{moved:?}");
    let warning = "bucket: locks and requests of this bucket (1) are with the broker at ";
    assert!(of(warning, &moved).1.contains("restart programs"), "{moved:?}");
    holder.release();
    eventually("nobody is left there", || {
        !checks(&machine).0.iter().any(|(_, said)| said.contains("where it does not live"))
    });
}

#[test]
fn nobody_is_told_to_end_a_broker_whose_etcd_is_away() {
    let server = Server::start();
    let [machine] = machines_of(&server.endpoint(), "navlock", "60");
    let _holder = machine.hold(&["db"]);
    server.stop();
    let (checks, code) = checks(&machine);
    server.go_on();
    assert_eq!(code, 1, "{checks:?}");
    let (level, said) = of("answers", &checks);
    assert_eq!(level, "fail");
    // The broker is given a little longer than it gives etcd.
    assert!(said.contains("cannot reach etcd") || said.contains("none within"), "{said}");
    assert!(said.contains("leave the broker alone") && !said.contains("end the broker"), "{said}");
}

/// Doctor fails in one check of etcd, and says this of it, as `navlock run` says it to a command that wants a
/// lock.
fn fails(machine: &Sandbox, what: &str, why: &str) {
    let run = machine.output(&["run", "db", "true"]);
    assert_eq!(run.status.code(), Some(69), "{run:?}");
    let (checks, code) = checks(machine);
    assert_eq!(code, 1, "{checks:?}");
    let failed: Vec<_> = checks.iter().filter(|(level, _)| level == "fail").collect();
    let [(_, said)] = &*failed else { panic!("{checks:?}") };
    assert!(said.starts_with(what) && said.contains(why), "{said}");
    let run = run.stderr;
    assert!(run.contains(why) && run.contains("'navlock doctor' says what is wrong"), "{run}");
    assert!(!checks.iter().any(|(_, said)| said.contains("is no lock")), "{checks:?}");
}

#[test]
fn a_broker_that_runs_grants_nothing_once_the_namespace_has_another_format() {
    let namespace = namespace();
    let [machine] = machines_of(&shared().endpoint(), &namespace, "5");
    // It has looked, and has locked nothing yet.
    assert_eq!(machine.query(), [""; 0]);
    shared().etcdctl(&["put", &format!("{namespace}/format"), "2"]).unwrap();
    let run = machine.output(&["run", "db", "true"]);
    assert_eq!(run.status.code(), Some(69), "{run:?}");
    assert!(run.stderr.contains("uses this etcd in format 2"), "{run:?}");
}

#[test]
fn a_namespace_in_the_format_of_another_release_is_told_and_left_as_it_is() {
    let namespace = namespace();
    let [machine] = machines_of(&shared().endpoint(), &namespace, "5");
    let all = format!("{namespace}/");
    let there = || shared().etcdctl(&["get", "--prefix", "--keys-only", &all]).unwrap();
    assert_eq!(checks(&machine).1, 0);
    assert_eq!(there(), "", "who only looks has begun there");
    for key in ["format", "1/default/l/db/h/x/somebody"].map(|key| format!("{namespace}/{key}")) {
        shared().etcdctl(&["put", &key, "99"]).unwrap();
        let before = there();
        fails(&machine, "etcd format: ", "another release of navlock uses this etcd");
        assert_eq!(there(), before);
        shared().etcdctl(&["del", &key]).unwrap();
    }
    assert_eq!(machine.code(&["run", "db", "true"]), 0);
    assert_eq!(checks(&machine).1, 0);
}
