//! What the tasks of a thread wait for in the system: connections, listeners, the ends of processes.

use std::{
    cell::RefCell,
    io::{self, ErrorKind},
    sync::{Arc, Mutex},
};

use navlock_platform::{
    readiness::{Found, Member, Registry},
    socket::Stream,
    wait::Source,
};
use slab::Slab;
use tokio::sync::Notify;

use crate::sync::lock;

/// The first of the keys by which a [`Readiness`](navlock_platform::readiness::Readiness) tells this. They are even.
const FIRST: usize = 1 << (usize::BITS - 1);

thread_local! {
    static HERE: RefCell<Option<Arc<Here>>> = const { RefCell::new(None) };
}

/// What the tasks of one thread wait for.
struct Here {
    registry: Registry,
    /// Notified when there is something new.
    news: Mutex<Slab<Arc<Notify>>>,
}

/// The tasks of this thread wait by this registry from now on. Whoever waits for its news [tells](tell) them.
pub(super) fn begin(registry: &Registry) {
    let here = Here { registry: registry.clone(), news: Mutex::default() };
    HERE.set(Some(Arc::new(here)));
}

/// Wakes the task that waits for this, if it is of those that tasks wait for.
pub(super) fn tell(found: Found) -> bool {
    if found.key < FIRST || found.key % 2 == 1 {
        return false;
    }
    let here = HERE.with_borrow(Clone::clone);
    let news = here.and_then(|here| lock(&here.news).get((found.key - FIRST) / 2).cloned());
    if let Some(news) = news {
        news.notify_one();
    }
    true
}

/// The key of one of these, until this is dropped.
struct Place {
    here: Arc<Here>,
    index: usize,
    news: Arc<Notify>,
}

impl Place {
    fn new() -> io::Result<Self> {
        let here = HERE.with_borrow(Clone::clone).ok_or(ErrorKind::Unsupported)?;
        let news = Arc::default();
        let index = lock(&here.news).insert(Arc::clone(&news));
        Ok(Self { here, index, news })
    }

    fn key(&self) -> usize {
        FIRST + 2 * self.index
    }

    /// Waits until there may be something new since the last call.
    async fn news(&self) {
        self.here.registry.again(self.key());
        self.news.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.here.registry.forget(self.key());
        lock(&self.here.news).try_remove(self.index);
    }
}

/// A source that a task waits for.
pub(super) struct Awaited<T: Source + Send + Sync + 'static> {
    source: Arc<T>,
    place: Place,
}

impl<T: Source + Send + Sync + 'static> Awaited<T> {
    /// # Errors
    ///
    /// If there is no memory left, or no task runs on this thread.
    pub(super) fn new(source: &Arc<T>) -> io::Result<Self> {
        let place = Place::new()?;
        place.here.registry.join_source(source, place.key())?;
        Ok(Self { source: Arc::clone(source), place })
    }

    /// Does this as soon as it does not block.
    pub(super) async fn when_ready<R>(
        &self,
        mut act: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            match act(&self.source) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.news().await,
                done => return done,
            }
        }
    }

    /// Waits until there is something new.
    pub(super) async fn news(&self) {
        self.place.news().await;
    }
}

impl<T: Source + Send + Sync + 'static> Drop for Awaited<T> {
    fn drop(&mut self) {
        self.place.here.registry.leave_source(&self.source, self.place.key());
    }
}

/// A connection that a task reads and writes.
pub(super) struct Socket {
    /// `None` when it is [told otherwise](Self::into_member).
    member: Option<Member>,
    place: Place,
}

impl Socket {
    /// # Errors
    ///
    /// If there is no memory left, or no task runs on this thread.
    pub(super) fn new(stream: Stream) -> io::Result<Self> {
        let place = Place::new()?;
        let member = place.here.registry.join(stream, place.key())?;
        Ok(Self { member: Some(member), place })
    }

    /// The connection, which is told under this key from now on.
    pub(super) fn into_member(mut self, key: usize) -> Member {
        self.place.here.registry.rekey(self.member(), self.place.key(), key);
        self.member.take().expect("only this takes it, and has the socket then")
    }

    pub(super) fn member(&self) -> &Member {
        self.member.as_ref().expect("only `into_member` takes it, after which there is no socket")
    }

    /// Waits until there may be something to read that was not there before.
    pub(super) async fn news(&self) {
        self.place.news().await;
    }

    /// Writes as soon as there is room.
    pub(super) async fn when_room<T>(
        &self,
        mut write: impl FnMut(&Member) -> io::Result<T>,
    ) -> io::Result<T> {
        let await_room = |awaits| {
            self.place.here.registry.await_room(self.member(), self.place.key(), awaits);
        };
        let mut awaits = false;
        let written = loop {
            match write(self.member()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !std::mem::replace(&mut awaits, true) {
                        await_room(true);
                    }
                    self.place.news().await;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => break written,
            }
        };
        if awaits {
            await_room(false);
        }
        written
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another descriptor of the connection may be open, for which the system would go on to tell this key.
        if let Some(member) = &self.member {
            self.place.here.registry.leave(member, self.place.key());
        }
    }
}
