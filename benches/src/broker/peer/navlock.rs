//! Navlock itself, through its public interface.

use std::{
    future::{Future, IntoFuture},
    io,
    path::Path,
    pin::pin,
    task::{Context, Waker},
};

use navlock::{
    BrokerReach, ConnectOptions, LockGuard, LockManager, Place, UserAgent, blocking::block_on,
};
use navlock_broker::daemon;

use super::super::measure::NAME;

/// The daemon, as the command runs it.
pub(super) fn serve(place: &Path, ready: impl FnOnce()) -> io::Result<()> {
    let mut options = daemon::Options::default();
    // It ends when it is killed.
    options.idle = None;
    let user_agent = |first| Ok(daemon::user_agent(first));
    daemon::run(&Place::at(place), user_agent, &options, ready).map_err(io::Error::other)
}

/// A lock manager of the daemon there. None is started.
pub(in crate::broker) fn lock_manager(place: &Path) -> io::Result<LockManager> {
    let options = ConnectOptions::default().place(Place::at(place)).program("/nonexistent");
    let reach = block_on(BrokerReach::connect(options)).map_err(io::Error::other)?;
    Ok(UserAgent::with_reach(reach).lock_manager("bench"))
}

pub(super) struct Client {
    locks: LockManager,
    held: Option<LockGuard>,
}

impl Client {
    pub(super) fn connect(place: &Path) -> io::Result<Self> {
        Ok(Self { locks: lock_manager(place)?, held: None })
    }
}

impl super::Client for Client {
    fn acquire(&mut self) -> io::Result<()> {
        self.held = Some(self.locks.lock(NAME).blocking().map_err(io::Error::other)?);
        Ok(())
    }

    fn release(&mut self) -> io::Result<()> {
        self.held = None;
        Ok(())
    }

    fn acquire_after(&mut self, event: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let mut request = pin!(self.locks.lock(NAME).into_future());
        if request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return Err(io::Error::other("it did not have to wait"));
        }
        // What the daemon answers this it has seen the request before.
        let state = block_on(self.locks.query()).map_err(io::Error::other)?;
        if state.pending.is_empty() {
            return Err(io::Error::other("the request is not in the queue"));
        }
        event()?;
        self.held = Some(block_on(request).map_err(io::Error::other)?);
        Ok(())
    }
}
