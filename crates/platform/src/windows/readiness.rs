//! Which of many connections and processes have something to say, by one question for all of them. The
//! question takes time for each of them.

use std::{
    collections::HashMap,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Wake, Waker},
    thread::{self, Thread},
};

pub use crate::found::Found;
use crate::{
    socket::AsyncStream,
    wait::Source,
    windows::system::{Awaited, is_signalled},
};

/// A set of connections and processes, each with a key. A member is told to the thread that has made the set.
#[derive(Debug)]
pub struct Readiness {
    watched: Mutex<HashMap<usize, Watched>>,
    waker: Waker,
}

struct Unparks(Thread);

/// A connection that is part of a [`Readiness`]. Reading and writing never waits.
#[derive(Debug)]
pub struct Member(Arc<AsyncStream>);

enum Watched {
    Stream { stream: Arc<AsyncStream>, awaits_room: bool },
    Process { process: Arc<dyn Source + Send + Sync>, awaited: Awaited },
}

impl Readiness {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn new() -> io::Result<Self> {
        Ok(Self { watched: Mutex::default(), waker: Arc::new(Unparks(thread::current())).into() })
    }

    /// Ends a [wait](Self::wait), the one that goes on or the next one.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<usize, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn join(&self, stream: AsyncStream, key: usize) -> io::Result<Member> {
        let stream = Arc::new(stream);
        let watched = Watched::Stream { stream: Arc::clone(&stream), awaits_room: false };
        self.watched().insert(key, watched);
        Ok(Member(stream))
    }

    /// Takes the end of the process in whose [`Handle`](crate::process::Handle) this is.
    ///
    /// # Errors
    ///
    /// If there is no memory left.
    pub fn join_process<T: Source + Send + Sync + 'static>(
        &self,
        process: &Arc<T>,
        key: usize,
    ) -> io::Result<()> {
        let process: Arc<dyn Source + Send + Sync> = Arc::<T>::clone(process);
        self.watched().insert(key, Watched::Process { process, awaited: Awaited::new()? });
        Ok(())
    }

    /// From now on tells as well, or no more, when there is room to write to this connection.
    pub fn await_room(&self, _: &Member, key: usize, awaits: bool) {
        if let Some(Watched::Stream { awaits_room, .. }) = self.watched().get_mut(&key) {
            *awaits_room = awaits;
        }
    }

    /// Lets a connection go.
    pub fn leave(&self, _: &Member, key: usize) {
        self.watched().remove(&key);
    }

    /// Lets the end of a process go.
    pub fn leave_process<T>(&self, _: &Arc<T>, key: usize) {
        self.watched().remove(&key);
    }

    /// Finds all that have something. Does not wait. Unlike on Unix, what was written to one connection
    /// may be found before what was written to another one earlier.
    pub fn ask(&mut self, all: &mut Vec<Found>) {
        let mut watched = self.watched();
        let ready = watched.iter().filter(|(_, one)| one.is_ready());
        let found: Vec<_> = ready.map(|(key, _)| *key).collect();
        for key in &found {
            // The end of a process is told once.
            if let Some(Watched::Process { .. }) = watched.get(key) {
                watched.remove(key);
            }
        }
        all.extend(found.into_iter().map(Found::unsure));
    }

    /// Waits until some have something, and finds them. Does not wait if `is_due` says that there is something else to
    /// do; whoever makes that so later [wakes](Self::waker) this.
    pub fn wait(&mut self, found: &mut Vec<Found>, is_due: impl FnOnce() -> bool) {
        let mut context = Context::from_waker(&self.waker);
        let watched = self.watched();
        // All of them wake this thread from here on.
        let is_ready =
            watched.values().fold(false, |is_ready, one| one.wakes(&mut context) || is_ready);
        drop(watched);
        if !is_due() && !is_ready {
            thread::park();
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
    /// Whether it has something.
    fn is_ready(&self) -> bool {
        match self {
            Self::Stream { stream, awaits_room } => {
                stream.is_readable() || *awaits_room && stream.is_writable()
            }
            Self::Process { process, .. } => process.source().as_object().is_some_and(is_signalled),
        }
    }

    /// Whether it has something. If not, the task is woken when it has.
    fn wakes(&self, context: &mut Context<'_>) -> bool {
        match self {
            Self::Stream { stream, awaits_room } => {
                stream.poll_read_ready(context).is_ready()
                    || *awaits_room && stream.poll_write_ready(context).is_ready()
            }
            Self::Process { process, awaited } => {
                let Some(object) = process.source().as_object() else { return false };
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
