//! Navlock itself, through its public interface.

use std::{
    fs,
    future::Future,
    hint::black_box,
    io,
    path::Path,
    pin::pin,
    task::{Context, Waker},
};

use navlock::{
    BrokerReach, ConnectOptions, LockGuard, LockManager, LockRequest, Place, UserAgent,
    blocking::block_on,
};
use navlock_broker::daemon;
use navlock_platform::file::group_at;

use super::{
    super::row::{NAME, Row},
    client,
};

/// When a client asks the daemon for a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::broker) enum Asks {
    /// If it does not own the name.
    IfItMust,
    EachTime,
    /// Each time, and the daemon serves several users.
    OfSystem,
}

impl Asks {
    fn place(self, place: &Path) -> Place {
        match (self, place.parent()) {
            (Self::OfSystem, Some(directory)) => Place::of_system_in(directory),
            _ => Place::at(place),
        }
    }
}

/// The daemon, as the command runs it.
pub(super) fn serve(place: &Path, asks: Asks, ready: impl FnOnce()) -> io::Result<()> {
    let mut options = daemon::Options::default();
    // It ends when it is killed.
    options.idle = None;
    options.delegate = asks == Asks::IfItMust;
    if asks == Asks::OfSystem {
        let directory = place.parent().ok_or(io::ErrorKind::InvalidInput)?;
        options.group = Some(group_at(&fs::metadata(directory)?));
    }
    let user_agent = |first| Ok(daemon::user_agent(first));
    daemon::run(&asks.place(place), user_agent, &options, ready).map_err(io::Error::other)
}

/// A lock manager of the daemon at this place. The daemon is not started.
pub(in crate::broker) fn lock_manager(place: &Path, asks: Asks) -> io::Result<LockManager> {
    let options = ConnectOptions::default().place(asks.place(place)).program("/nonexistent");
    let options = options.delegate(asks == Asks::IfItMust);
    let reach = block_on(BrokerReach::connect(options)).map_err(io::Error::other)?;
    Ok(UserAgent::with_reach(reach).lock_manager("bench"))
}

/// A lock manager of this process alone.
pub(super) fn in_process() -> LockManager {
    UserAgent::new().lock_manager("bench")
}

/// A client that blocks its thread until it has the lock.
pub(super) struct Client {
    locks: LockManager,
    is_shared: bool,
    held: Option<LockGuard>,
}

impl Client {
    pub(super) fn new(locks: LockManager, row: Row) -> Self {
        Self { locks, is_shared: row == Row::Shared, held: None }
    }
}

#[inline]
fn request(locks: &LockManager, is_shared: bool) -> LockRequest<'_, LockGuard, &'static str> {
    let request = locks.lock(black_box(NAME));
    if is_shared { request.shared() } else { request }
}

impl client::Client for Client {
    fn acquire(&mut self) -> io::Result<()> {
        let request = request(&self.locks, self.is_shared);
        self.held = Some(request.blocking().map_err(io::Error::other)?);
        Ok(())
    }

    fn release(&mut self) -> io::Result<()> {
        self.held = None;
        Ok(())
    }

    fn take_and_release(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            let request = request(&self.locks, self.is_shared);
            drop(black_box(request.blocking().map_err(io::Error::other)?));
        }
        Ok(())
    }

    fn take_and_release_other(&mut self, name: &str) -> io::Result<()> {
        self.locks.lock(name).blocking().map(drop).map_err(io::Error::other)
    }

    fn acquire_after(&mut self, event: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let mut request = pin!(self.locks.lock(NAME).into_owned());
        if request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return Err(io::Error::other("it did not have to wait"));
        }
        // The daemon has read the request before it answers this.
        let state = block_on(self.locks.query()).map_err(io::Error::other)?;
        if state.pending.is_empty() {
            return Err(io::Error::other("the request is not in the queue"));
        }
        event()?;
        self.held = Some(block_on(request).map_err(io::Error::other)?);
        Ok(())
    }
}

/// One task that awaits its locks.
pub(super) struct Tasks(Client);

impl Tasks {
    pub(super) fn new(locks: LockManager, row: Row) -> Self {
        Self(Client::new(locks, row))
    }
}

impl client::Client for Tasks {
    fn acquire(&mut self) -> io::Result<()> {
        self.0.acquire()
    }

    fn release(&mut self) -> io::Result<()> {
        self.0.release()
    }

    fn take_and_release(&mut self, count: usize) -> io::Result<()> {
        let Client { locks, is_shared, .. } = &self.0;
        pollster::block_on(async {
            for _ in 0..count {
                let request = request(locks, *is_shared);
                drop(black_box(request.await.map_err(io::Error::other)?));
            }
            Ok(())
        })
    }
}
