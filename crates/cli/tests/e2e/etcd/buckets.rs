//! Buckets that live in different places, as the settings say: on this machine, on one etcd and on another.

use std::process::Stdio;

use navlock::blocking::block_on;

use super::server::{Server, namespace, shared};
use crate::{
    sandbox::{Holder, NAVLOCK, Output, Sandbox, eventually},
    system::absolute,
    worker::{self, say},
};

/// Settings with buckets in two stores and here.
fn settings(other: &Server) -> String {
    format!(
        "[buckets.'fleet-*']\nstore = 'main'\n[buckets.'fleet-cache']\n[buckets.jobs]\nstore = 'other'\n\
         [stores.main]\netcd = ['{}']\nnamespace = '{}'\ntime-to-live = 60\n\
         [stores.other]\netcd = ['{}']\ntime-to-live = 5\n",
        shared().endpoint(),
        namespace(),
        other.endpoint()
    )
}

/// Each bucket, where it lives, and whether the machines share it.
const BUCKETS: [(&str, &str, bool); 4] = [
    ("default", "on this machine, for this user", false),
    ("fleet-cache", "on this machine, for this user (", false),
    ("fleet-42", "in the store main (", true),
    ("jobs", "in the store other (", true),
];

/// Somebody who holds the name in this bucket.
fn hold(machine: &Sandbox, bucket: &str) -> Holder {
    let mut holder = machine.wait_for(&["--bucket", bucket, "db"]);
    holder.begun();
    holder
}

fn in_bucket(machine: &Sandbox, bucket: &str, arguments: &[&str]) -> Output {
    machine.output(&[&["--bucket", bucket], arguments].concat())
}

#[test]
fn each_bucket_lives_where_the_settings_say() {
    let other = Server::start();
    let settings = settings(&other);
    let [ours, theirs] = [(); 2].map(|()| Sandbox::with_buckets(&settings));
    for (bucket, lives, is_shared) in BUCKETS {
        let holder = hold(&ours, bucket);
        for (machine, is_excluded) in [(&ours, true), (&theirs, is_shared)] {
            let code = in_bucket(machine, bucket, &["run", "-n", "db", "true"]).code();
            assert_eq!(code, Some(i32::from(is_excluded)), "{bucket}");
        }
        let said = in_bucket(&ours, bucket, &["query", "-v"]);
        assert!(said.stderr.contains(&format!("the bucket {bucket:?} lives {lives}")), "{said:?}");
        assert!(said.stdout.contains("db"), "{said:?}");
        let said = ours.output(&["doctor", bucket]).stdout;
        assert!(said.contains(&format!("bucket: the bucket {bucket:?} lives {lives}")), "{said}");
        assert_eq!(said.contains("etcd writes"), is_shared, "{said}");
        holder.release();
    }
    // The id of a hold says which it is.
    let id = in_bucket(&ours, "fleet-42", &["hold", "--ttl", "600", "kept"]).stdout;
    assert_eq!(ours.code(&["extend", id.trim(), "500"]), 0);
    assert_eq!(ours.code(&["release", id.trim()]), 0);
    assert_eq!(in_bucket(&theirs, "fleet-42", &["run", "-n", "kept", "true"]).code(), Some(0));
    // A broker is told where it is, and goes by no bucket.
    let said = in_bucket(&ours, "fleet-42", &["daemon", "status"]).stdout;
    assert!(!said.contains("sock.store-main"), "{said}");
    let said = ours.output(&["daemon", "status", "--store", "main"]).stdout;
    assert!(said.contains("sock.store-main"), "{said}");
    // The command finds its own lock, wherever its bucket lives.
    let nested = ["--store", "main", "run", "outer", "sh", "-c", "\"$NAVLOCK\" run -n outer true"];
    assert_eq!(ours.code(&nested), 1);
    assert!(ours.output(&["doctor", "--bucket", "jobs"]).stdout.contains("in the store other"));
    let said = in_bucket(&ours, "fleet-42", &["query", "-v"]).stderr;
    assert!(said.contains("config.toml, line 2: [buckets.\"fleet-*\"]"), "{said}");
}

#[test]
fn the_loss_of_a_store_is_that_of_its_own_buckets_alone() {
    let other = Server::start();
    let machine = Sandbox::with_buckets(&settings(&other));
    // Another machine may hold something there.
    let said = machine.output(&["query", "--all-buckets"]).stderr;
    for store in ["main", "other"] {
        assert!(said.contains(&format!("no broker of the store {store} runs here")), "{said}");
    }
    let mut holders = BUCKETS.map(|(bucket, ..)| hold(&machine, bucket));
    let all = machine.output(&["query", "--all-buckets", "--json"]).stdout;
    for (bucket, ..) in BUCKETS {
        assert!(all.contains(&format!("\"bucket\":{bucket:?}")), "{all}");
    }
    other.stop();
    let [here, cache, fleet, jobs] = &mut holders;
    assert!(!jobs.ended().success(), "its lock was lost");
    let mut others = [here, cache, fleet];
    assert!(!others.iter_mut().any(|holder| holder.has_ended()));
    for (bucket, ..) in &BUCKETS[..3] {
        assert_eq!(in_bucket(&machine, bucket, &["run", "free", "true"]).code(), Some(0));
        assert_eq!(in_bucket(&machine, bucket, &["run", "-n", "db", "true"]).code(), Some(1));
    }
    other.go_on();
    eventually("the store is back", || {
        in_bucket(&machine, "jobs", &["run", "db", "true"]).code() == Some(0)
    });
    holders.into_iter().take(3).for_each(Holder::release);
}

/// The role of a program that takes the same name in all these buckets, through one user agent.
pub(crate) fn takes(buckets: &[&str]) {
    let user_agent = navlock::local_blocking().unwrap();
    for bucket in buckets {
        let locks = user_agent.lock_manager(bucket);
        let guard = locks.lock("db").if_available().blocking().unwrap();
        say(if guard.is_some() { "taken" } else { "held" });
        assert_eq!(block_on(locks.query()).unwrap().held.len(), 1);
    }
}

#[test]
fn a_program_reaches_all_of_them_through_one_user_agent() {
    let other = Server::start();
    let settings = settings(&other);
    let [ours, theirs] = [(); 2].map(|()| Sandbox::with_buckets(&settings));
    let holders: Vec<_> = BUCKETS.map(|(bucket, ..)| hold(&ours, bucket)).into_iter().collect();
    let all = BUCKETS.map(|(bucket, ..)| bucket).join(" ");
    for (machine, expected) in [
        (&ours, ["@held", "@held", "@held", "@held"]),
        (&theirs, ["@taken", "@taken", "@held", "@held"]),
    ] {
        let output = Output::of(
            worker::program(machine, "etcd::buckets::takes", &all)
                .env("NAVLOCK_BIN", absolute(NAVLOCK))
                .stderr(Stdio::inherit()),
        );
        let said: Vec<_> = output.stdout.lines().filter(|line| line.starts_with('@')).collect();
        assert_eq!(said, expected, "{output:?}");
    }
    holders.into_iter().for_each(Holder::release);
}
