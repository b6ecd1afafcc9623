//! Which of many connections and processes have something to say, by one question for all of them. The
//! question takes time for each of them.

use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

pub use crate::found::Found;
use crate::{
    socket::{AsyncStream, Stream},
    wait::Source,
    windows::system::{Awaited, is_signalled},
};

/// A set of connections, processes and other sources, each with a key. A member is told to the thread that has made
/// the set.
#[derive(Debug)]
pub struct Readiness {
    registry: Registry,
    waker: Waker,
}

/// What takes members into a [`Readiness`], also while that waits.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Mutex<HashMap<usize, Watched>>>);

struct Unparks(Thread);

/// A connection that is part of a [`Readiness`]. Reading and writing never waits.
#[derive(Debug)]
pub struct Member(Arc<AsyncStream>);

struct Watched {
    what: What,
    awaits_room: bool,
    /// Whether it is told no more than once, until it is to be told [again](Registry::again).
    once: bool,
    is_told: bool,
}

enum What {
    Stream(Arc<AsyncStream>),
    Source { source: Arc<dyn Source + Send + Sync>, awaited: Awaited },
}

impl Registry {
    fn watched(&self) -> MutexGuard<'_, HashMap<usize, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, key: usize, what: What, once: bool) {
        let watched = Watched { what, awaits_room: false, once, is_told: false };
        self.watched().insert(key, watched);
    }

    /// Takes a connection in. That it has something is told once, and then [again](Self::again).
    ///
    /// # Errors
    ///
    /// If there is no memory left.
    pub fn join(&self, stream: Stream, key: usize) -> io::Result<Member> {
        let stream = Arc::new(AsyncStream::from_std(stream)?);
        self.enter(key, What::Stream(Arc::clone(&stream)), true);
        Ok(Member(stream))
    }

    /// Gives a connection another key. From now on it is told without [`again`](Self::again).
    pub fn rekey(&self, member: &Member, before: usize, key: usize) {
        self.watched().remove(&before);
        self.enter(key, What::Stream(Arc::clone(&member.0)), false);
    }

    /// Takes in what can be waited for. That there is something new is told once, and then [again](Self::again).
    ///
    /// # Errors
    ///
    /// If there is no memory left.
    pub fn join_source<T: Source + Send + Sync + 'static>(
        &self,
        source: &Arc<T>,
        key: usize,
    ) -> io::Result<()> {
        let source: Arc<dyn Source + Send + Sync> = Arc::<T>::clone(source);
        self.enter(key, What::Source { source, awaited: Awaited::new()? }, true);
        Ok(())
    }

    /// Has the next news of this key told.
    pub fn again(&self, key: usize) {
        if let Some(watched) = self.watched().get_mut(&key) {
            watched.is_told = false;
        }
    }

    /// Forgets the key of a connection that is closed.
    pub fn forget(&self, key: usize) {
        self.watched().remove(&key);
    }

    /// From now on tells as well, or no more, when there is room to write to this connection.
    pub fn await_room(&self, _: &Member, key: usize, awaits: bool) {
        if let Some(watched) = self.watched().get_mut(&key) {
            watched.awaits_room = awaits;
        }
    }

    /// Lets a connection go.
    pub fn leave(&self, _: &Member, key: usize) {
        self.watched().remove(&key);
    }

    /// Lets a source go.
    pub fn leave_source<T>(&self, _: &Arc<T>, key: usize) {
        self.watched().remove(&key);
    }
}

impl Readiness {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn new() -> io::Result<Self> {
        let waker = Arc::new(Unparks(thread::current())).into();
        Ok(Self { registry: Registry::default(), waker })
    }

    /// Ends a [wait](Self::wait), the one that goes on or the next one.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// What takes members in.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Finds all that have something. Does not wait. Unlike on Unix, what was written to one connection
    /// may be found before what was written to another one earlier.
    pub fn ask(&mut self, found: &mut Vec<Found>) {
        let mut watched = self.registry.watched();
        for (key, one) in watched.iter_mut().filter(|(_, one)| one.is_ready()) {
            one.is_told = one.once;
            found.push(Found::unsure(*key));
        }
    }

    /// Waits until some have something, and finds them, but no longer than `within` says. Whoever makes that less later
    /// [wakes](Self::waker) this.
    pub fn wait(&mut self, found: &mut Vec<Found>, within: impl FnOnce() -> Option<Duration>) {
        let mut context = Context::from_waker(&self.waker);
        let watched = self.registry.watched();
        // All of them wake this thread from here on.
        let is_ready =
            watched.values().fold(false, |is_ready, one| one.wakes(&mut context) || is_ready);
        drop(watched);
        match within() {
            _ if is_ready => {}
            Some(time) => thread::park_timeout(time),
            None => thread::park(),
        }
        self.ask(found);
    }
}

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Watched {
    /// Whether it has something to be told.
    fn is_ready(&self) -> bool {
        !self.is_told
            && match &self.what {
                What::Stream(stream) => {
                    stream.is_readable() || self.awaits_room && stream.is_writable()
                }
                What::Source { source, .. } => {
                    source.source().as_object().is_some_and(is_signalled)
                }
            }
    }

    /// Whether it has something to be told. If not, the task is woken when it has.
    fn wakes(&self, context: &mut Context<'_>) -> bool {
        match &self.what {
            _ if self.is_told => false,
            What::Stream(stream) => {
                stream.poll_read_ready(context).is_ready()
                    || self.awaits_room && stream.poll_write_ready(context).is_ready()
            }
            What::Source { source, awaited } => {
                let Some(object) = source.source().as_object() else { return false };
                if is_signalled(object) {
                    return true;
                }
                awaited.wake_when(object, context.waker());
                false
            }
        }
    }
}

impl Member {
    /// Reads what there is; nothing at the end. Returns how much it was, and whether that was surely all that there is.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is nothing. Others as of `ReadFile`.
    pub fn read(&self, into: &mut [u8]) -> io::Result<(usize, bool)> {
        Ok((self.0.try_read(into)?, false))
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room. Others as of `WriteFile`.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    /// Sends files with bytes: here that is not possible.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn send_with_files(&self, _: &[u8], _: [&File; 2]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether the other end has gone, even if what it had sent before is still unread.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// The same end of the connection, for another [`Readiness`].
    ///
    /// # Errors
    ///
    /// None here.
    pub fn another(&self) -> io::Result<Stream> {
        self.0.stream().try_clone()
    }

    /// Ends the connection, at both ends. What was sent before can still be read.
    pub fn shut_down(&self) {
        self.0.shut_down();
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}
