//! The backend suite through a socket: each test has a daemon of its own, in this process. Once as
//! clients are served that own no names, and once with all names that are free owned by who asks.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

#[cfg(target_os = "linux")]
use std::time::Instant;
use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use navlock_broker::{
    BrokerReach, ConnectOptions, Place,
    daemon::{self, Options},
};
use navlock_core::{
    UserAgent,
    blocking::block_on,
    host::{Backend, Reach},
};
use tempfile::TempDir;

navlock_testkit::backend_suite!(run(false).0);

#[cfg(target_os = "linux")]
mod owned {
    navlock_testkit::backend_suite!(crate::owning_broker());
}

const LONG: Duration = Duration::from_secs(20);

/// A broker and its directory, which goes when nobody needs it any more.
#[derive(Debug)]
struct Directed(BrokerReach, #[expect(dead_code, reason = "dropped with it")] Arc<TempDir>);

impl Reach for Directed {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        self.0.open_bucket(name)
    }
}

/// Runs a broker, whose clients can own names if `delegate` is set, and connects to it.
fn run(delegate: bool) -> (UserAgent, BrokerReach) {
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let place = Place::at(directory.path().join("sock"));
    let (ready, is_ready) = mpsc::channel();
    let at = place.clone();
    thread::spawn(move || {
        let user_agent = |first| Ok(daemon::user_agent(first));
        let mut options = Options::default();
        (options.idle, options.delegate) = (Some(Duration::from_secs(10)), delegate);
        daemon::run(&at, user_agent, &options, || _ = ready.send(())).unwrap();
    });
    is_ready.recv_timeout(LONG).unwrap();
    let options = ConnectOptions::default().place(place).program("/nonexistent");
    let reach = block_on(BrokerReach::connect(options)).unwrap();
    (UserAgent::with_reach(Directed(reach.clone(), directory)), reach)
}

#[cfg(target_os = "linux")]
fn owning_broker() -> UserAgent {
    let (user_agent, reach) = run(true);
    // A client asks for that only once it has had some.
    let locks = user_agent.lock_manager("before the test");
    let deadline = Instant::now() + LONG;
    while reach.owned() == 0 {
        assert!(Instant::now() < deadline, "no name is owned");
        drop(locks.lock("any").blocking().unwrap());
    }
    user_agent
}
