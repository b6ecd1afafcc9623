//! Brokers that belong to one test run.

use std::{
    path::{Path, PathBuf},
    sync::{OnceLock, mpsc},
    thread,
    time::Duration,
};

use navlock_broker::{
    Place,
    daemon::{self, Options},
};
use tempfile::TempDir;

/// Two brokers. The second one is for tests that ask for another user agent. Both start at the
/// first use, and end with the run.
#[derive(Default)]
pub(crate) struct Broker(OnceLock<TempDir>);

impl Broker {
    /// The socket of the first broker. The path of the second socket is this one with `-other` at
    /// its end.
    pub(crate) fn socket(&self) -> PathBuf {
        let directory = self.0.get_or_init(|| {
            let directory = tempfile::tempdir().unwrap();
            for name in ["sock", "sock-other"] {
                serve(&directory.path().join(name));
            }
            directory
        });
        directory.path().join("sock")
    }
}

fn serve(socket: &Path) {
    let place = Place::at(socket);
    let (ready, is_ready) = mpsc::channel();
    thread::spawn(move || {
        let user_agent = |first| Ok(daemon::user_agent(first));
        let mut options = Options::default();
        options.idle = None;
        daemon::run(&place, user_agent, &options, || _ = ready.send(())).unwrap();
    });
    is_ready.recv_timeout(Duration::from_secs(20)).unwrap();
}
