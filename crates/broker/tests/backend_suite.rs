//! The backend suite through a socket: each test has a daemon of its own, in this process. Once as
//! clients are served that own no names, and once with all names that are free owned by who asks.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

#[cfg(target_os = "linux")]
use std::{sync::Arc, time::Instant};
use std::{sync::mpsc, thread, time::Duration};

use navlock_broker::{
    BrokerReach, ConnectOptions, Place,
    daemon::{self, Options},
};
#[cfg(target_os = "linux")]
use navlock_core::host::{Backend, Reach};
use navlock_core::{FencingToken, UserAgent, blocking::block_on};
use navlock_platform::socket::Listener;
#[cfg(target_os = "linux")]
use tempfile::TempDir;

navlock_testkit::backend_suite!(broker());

#[cfg(target_os = "linux")]
mod owned {
    navlock_testkit::backend_suite!(crate::owning_broker());
}

const LONG: Duration = Duration::from_secs(20);

fn broker() -> UserAgent {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let (ready, is_ready) = mpsc::channel();
    let socket = place.socket().to_owned();
    thread::spawn(move || {
        let listener = Listener::bind(socket).unwrap();
        ready.send(()).unwrap();
        let mut options = Options::default();
        options.idle = Some(Duration::from_secs(10));
        // Not `run`, which ends when its socket's directory goes, as it does before the test.
        block_on(daemon::serve(listener, daemon::user_agent(FencingToken::new(1)), options));
    });
    is_ready.recv_timeout(LONG).unwrap();
    UserAgent::with_reach(connect(&place))
}

fn connect(place: &Place) -> BrokerReach {
    let options = ConnectOptions::default().place(place.clone()).program("/nonexistent");
    block_on(BrokerReach::connect(options)).unwrap()
}

/// A broker and its directory, which goes when nobody needs it any more.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Directed(BrokerReach, #[expect(dead_code, reason = "dropped with it")] Arc<TempDir>);

#[cfg(target_os = "linux")]
impl Reach for Directed {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        self.0.open_bucket(name)
    }
}

#[cfg(target_os = "linux")]
fn owning_broker() -> UserAgent {
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let place = Place::at(directory.path().join("sock"));
    let (ready, is_ready) = mpsc::channel();
    let at = place.clone();
    thread::spawn(move || {
        let user_agent = |first| Ok(daemon::user_agent(first));
        let mut options = Options::default();
        options.idle = Some(Duration::from_secs(10));
        daemon::run(&at, user_agent, &options, || ready.send(()).unwrap()).unwrap();
    });
    is_ready.recv_timeout(LONG).unwrap();
    let reach = connect(&place);
    let user_agent = UserAgent::with_reach(Directed(reach.clone(), directory));
    // A client asks for that only once it has had some.
    let locks = user_agent.lock_manager("before the test");
    let deadline = Instant::now() + LONG;
    while reach.owned() == 0 {
        assert!(Instant::now() < deadline, "no name is owned");
        drop(locks.lock("any").blocking().unwrap());
    }
    user_agent
}
