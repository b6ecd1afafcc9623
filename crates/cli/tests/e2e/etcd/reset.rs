//! An etcd that begins anew, with brokers that go on.

use std::fs::{self, File};

use super::server::{Server, namespace};
use crate::sandbox::{Holder, Sandbox, eventually};

/// Starts a holder, which writes into this file that it has lost.
fn hold(machine: &Sandbox, name: &str, said: &str) -> Holder {
    let mut command = machine.navlock(&["run", name, "sh", "-c", "echo $$; exec cat"]);
    command.stderr(File::create(machine.path(said)).unwrap());
    let mut holder = Holder::start(command);
    holder.begun();
    holder
}

/// Checks that each holder loses once and is told why, that waiters are granted, and that brokers need no
/// restart.
fn all_go_on(server: &mut Server, begin_anew: impl FnOnce(&mut Server)) {
    // Longer than it takes to start etcd: no lease ends by the clock.
    let settings = format!(
        "[stores.main]\netcd = [\"{}\"]\nnamespace = \"{}\"\ntime-to-live = 60\n",
        server.endpoint(),
        namespace()
    );
    let machines @ [ours, theirs] = &[(); 2].map(|()| Sandbox::with_settings(&settings));
    let (mut alone, mut first) = (hold(ours, "alone", "of-alone"), hold(ours, "db", "of-db"));
    let mut waiter = theirs.queue(&["db"]);
    // Each grant and each release is a revision.
    for _ in 0..10 {
        assert_eq!(ours.code(&["run", "other", "true"]), 0);
    }
    let brokers = machines.each_ref().map(Sandbox::broker);
    begin_anew(server);
    for (holder, said) in [(&mut alone, "of-alone"), (&mut first, "of-db")] {
        assert_eq!(holder.ended().code(), Some(75));
        let said = fs::read_to_string(ours.path(said)).unwrap();
        assert!(said.contains("the data of the service that keeps it is gone"), "{said}");
    }
    waiter.begun();
    let mut again = ours.hold(&["alone"]);
    eventually("the two hold", || theirs.query() == ["held alone exclusive", "held db exclusive"]);
    assert_eq!(theirs.code(&["run", "-n", "alone", "true"]), 1);
    assert!(!again.has_ended() && !waiter.has_ended(), "what is granted after that stays");
    again.release();
    waiter.release();
    assert_eq!(machines.each_ref().map(Sandbox::broker), brokers);
}

#[test]
fn all_go_on_when_etcd_has_lost_its_data() {
    all_go_on(&mut Server::start(), |server| {
        server.kill();
        server.wipe();
        server.restart();
    });
}

#[test]
fn all_go_on_when_etcd_was_restored_from_a_backup_that_is_older() {
    let mut server = Server::start();
    let backup = server.backup();
    all_go_on(&mut server, |server| {
        server.kill();
        server.restore(&backup);
        server.restart();
    });
    fs::remove_file(backup).unwrap();
}
