//! The backend suite through a socket: each test has a daemon of its own, in this process.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::{sync::mpsc, thread, time::Duration};

use navlock_broker::{
    BrokerReach, ConnectOptions, Place,
    daemon::{self, Options},
};
use navlock_core::{FencingToken, UserAgent, blocking::block_on};
use tokio::net::UnixListener;

navlock_testkit::backend_suite!(broker());

fn broker() -> UserAgent {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let (ready, is_ready) = mpsc::channel();
    let socket = place.socket().to_owned();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let listener = UnixListener::bind(socket).unwrap();
            ready.send(()).unwrap();
            let mut options = Options::default();
            options.idle = Some(Duration::from_secs(10));
            // Not `run`, which ends when its socket's directory goes, as it does before the test.
            daemon::serve(&listener, daemon::user_agent(FencingToken::new(1)), options).await;
        });
    });
    is_ready.recv_timeout(Duration::from_secs(20)).unwrap();
    let options = ConnectOptions::default().place(place).program("/nonexistent");
    UserAgent::with_reach(block_on(BrokerReach::connect(options)).unwrap())
}
