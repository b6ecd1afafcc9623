//! The backend suite through a socket: each test has a daemon of its own, in this process.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::{sync::mpsc, thread, time::Duration};

use navlock_broker::{
    BrokerReach, ConnectOptions, Place,
    daemon::{self, Options},
};
use navlock_core::{UserAgent, blocking::block_on};

navlock_testkit::backend_suite!(broker());

fn broker() -> UserAgent {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let (ready, is_ready) = mpsc::channel();
    let daemon = place.clone();
    thread::spawn(move || {
        let mut options = Options::default();
        options.idle = Some(Duration::from_secs(10));
        let run = daemon::run(&daemon, daemon::user_agent(), options, || ready.send(()).unwrap());
        // Its directory is gone by then, which it can live with.
        run.unwrap();
    });
    is_ready.recv_timeout(Duration::from_secs(20)).unwrap();
    let options = ConnectOptions::default().place(place).program("/nonexistent");
    UserAgent::with_reach(block_on(BrokerReach::connect(options)).unwrap())
}
