//! A daemon for each test, and waiting with a deadline.

use std::{
    future::Future,
    sync::{Arc, mpsc},
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock_broker::{
    BrokerReach, ConnectOptions, Place,
    daemon::{self, Limits, Options},
};
use navlock_core::{LockManager, UserAgent, blocking::block_on_timeout};
use navlock_platform::socket::Stream;

/// How long a test waits for anything.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A daemon that ends when this is dropped.
pub(crate) struct Daemon {
    directory: tempfile::TempDir,
    options: Options,
    /// Dropping the first ends the daemon; the second is the thread that ends with it.
    running: Option<(Stream, thread::JoinHandle<()>)>,
}

impl Daemon {
    /// A daemon with the usual options.
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// A daemon with these limits.
    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self::with(|options| options.limits = limits)
    }

    /// A daemon that does not end by itself and whose clients own no names, unless `change` says so.
    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        (options.idle, options.delegate) = (None, false);
        change(&mut options);
        let mut daemon = Self { directory, options, running: None };
        daemon.begin();
        daemon
    }

    fn begin(&mut self) {
        let (place, mut options) = (self.place(), self.options.clone());
        let (ready, is_ready) = mpsc::channel();
        let (end, told_to_end) = Stream::pair().unwrap();
        options.end = Some(Arc::new(told_to_end));
        let thread = thread::spawn(move || {
            let user_agent = |first| Ok(daemon::user_agent(first));
            daemon::run(&place, user_agent, &options, || _ = ready.send(())).unwrap();
        });
        is_ready.recv_timeout(LONG).unwrap();
        self.running = Some((end, thread));
    }

    /// Ends the daemon, and starts another one at the same place, which does not wait for the clients of
    /// the first one.
    pub(crate) fn restart(&mut self) {
        self.options.recovery_time = Duration::ZERO;
        self.give_way();
    }

    /// Ends the daemon, and starts another one at the same place, to which the clients of the first one come back.
    pub(crate) fn give_way(&mut self) {
        self.stop();
        self.begin();
    }

    /// Ends the daemon, and waits for its end.
    pub(crate) fn stop(&mut self) {
        if let Some((end, thread)) = self.running.take() {
            drop(end);
            thread.join().unwrap();
        }
    }

    /// Where clients find the daemon.
    pub(crate) fn place(&self) -> Place {
        Place::at(self.directory.path().join("sock"))
    }

    /// A connection of its own, as another program would have.
    pub(crate) fn client(&self) -> UserAgent {
        UserAgent::with_reach(self.reach())
    }

    /// The locks of the bucket `app`, as another program sees them.
    pub(crate) fn locks(&self) -> LockManager {
        self.client().lock_manager("app")
    }

    fn reach(&self) -> BrokerReach {
        let place = self.place();
        // The program does not exist, so that no broker is started here.
        let options = ConnectOptions::default().place(place).program("/nonexistent");
        soon(BrokerReach::connect(options)).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The outcome of a request or another future, which must come in good time.
#[track_caller]
pub(crate) fn soon<T>(future: impl IntoFuture<Output = T>) -> T {
    block_on_timeout(future, LONG).expect("in good time")
}

/// Makes a request and waits until the daemon has it in its queue.
pub(crate) fn queue<T>(
    locks: &LockManager,
    name: &str,
    mut request: std::pin::Pin<&mut impl Future<Output = T>>,
) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(request.as_mut().poll(&mut context).is_pending());
    let state = soon(locks.query()).unwrap();
    assert!(state.pending.iter().any(|info| info.name.as_str() == Some(name)), "{state:?}");
}

/// Waits until something is true of which nobody is told.
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is() {
        assert!(Instant::now() < deadline, "not in {LONG:?}: {what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}
