//! A connection that outlives its daemon: how messages are sent and read on the connection, and how
//! it ends.

mod own_file;
mod reader_turns;
mod reading;
mod reads;
mod sending;
mod starting;
mod thread_state;
pub(super) mod writer;

use std::{
    fmt, io,
    net::Shutdown,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use navlock_core::{
    Error,
    blocking::{self, Source},
};
use navlock_platform::{socket::Stream, wait::has_hung_up};
use navlock_wire::ClientKey;

use self::{reader_turns::ReaderTurns, reads::Reads, thread_state::ThreadState, writer::Writer};
use super::{
    client_table::ClientTable,
    handshake::Welcomed,
    owned::Owned,
    reader::{Reader, WakePipe, wake},
};
use crate::{
    client_files::{ClientFiles, Registration},
    clock,
    connect_error::{ConnectError, Reason},
};

/// How often the maintainer reads the clock while there are terms. The clock by which it sleeps may stand
/// still while the terms run out, as when the machine is suspended.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long there may be no daemon before clients that wait for one are told of the outage. Held
/// locks are not lost because of the outage.
pub(super) const OUTAGE_TOLD_AFTER: Duration = Duration::from_secs(9);

/// What was being done when the registration failed, for messages.
const REGISTERING: &str = "writing to its directory";

/// What the maintainer of a connection does on its thread.
type Keeping = Box<dyn FnOnce() + Send>;

/// A connection, which the reach, its buckets and lifelines share. It ends when the last of them has
/// gone.
pub(super) struct Connection {
    shared: Arc<Shared>,
}

/// What a [`Connection`] shares with the thread that keeps the connection.
///
/// # Invariants
///
/// - Locks are taken in this order: `hearing`, reader or registration, writer, table, then what `owned` has.
/// - No waker is called or dropped while any of these locks is held.
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) files: ClientFiles,
    pub(super) key: ClientKey,
    /// Whether the connection only asks questions, so that it never has locks to claim from a next
    /// daemon.
    pub(super) only_questions: bool,
    /// This client's own file, while there may be locks to claim from a next daemon.
    registration: Mutex<Option<Registration>>,
    table: Mutex<ClientTable>,
    writer: Mutex<Writer>,
    /// The reader. The thread that has it locked reads for everybody. `None` while there is no
    /// connection.
    reader: Mutex<Option<Reader>>,
    pub(super) reads: Reads,
    /// A byte in here wakes the maintainer, which then looks what there is to do.
    waking_end: Stream,
    /// A byte in here makes the thread that waits with the reader give the reader up.
    interrupt: WakePipe,
    /// Whether the [`Connection`] was dropped.
    closed: AtomicBool,
    pub(super) turns: ReaderTurns,
    /// The last moment at which a lock was asked for while what the daemon has sent was known.
    asked_at: AtomicU64,
    /// Locked by the thread that reads what was sent while this process was stopped.
    hearing: Mutex<()>,
    /// Whether the maintainer has a thread. Without one it does nothing.
    thread: ThreadState,
    /// Whether messages are kept back until somebody waits for an answer. That will be soon.
    ///
    /// FAST: each message that is sent alone would wake the daemon, and nobody needs an answer yet.
    holds_back: AtomicBool,
    /// What the maintainer will do, as long as there is no thread for it.
    without_thread: Mutex<Option<Waiting>>,
    /// The names that this client owns. `owned` also knows whether this process is a fork.
    pub(super) owned: Arc<Owned>,
    /// The table of a forked process, which is empty.
    forked: OnceLock<Mutex<ClientTable>>,
}

/// A maintainer without a thread.
struct Waiting {
    shared: Arc<Shared>,
    keeping: Keeping,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn table(&self) -> MutexGuard<'_, ClientTable> {
        self.shared.table()
    }

    /// Changes the table, and sends the messages that result. Never waits.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut ClientTable) -> T) -> T {
        self.shared.change(change)
    }

    /// Changes the table so that something ends, and returns when the messages that result are on their way.
    pub(super) fn end<T>(&self, change: impl FnOnce(&mut ClientTable) -> T) -> T {
        self.shared.end(change)
    }

    /// Changes the table. The messages that result are sent with those of the next change. That will be
    /// soon.
    pub(super) fn change_quietly<T>(&self, change: impl FnOnce(&mut ClientTable) -> T) -> T {
        change(&mut self.table())
    }

    /// The table, in which locks are ended first whose term is over or that a daemon has given up:
    /// no thread may have ended them in time, because this process was stopped. If no thread reads
    /// the connection, what has come is read first.
    pub(super) fn table_in_time(&self) -> MutexGuard<'_, ClientTable> {
        self.shared.read_without_thread();
        self.shared.hear_if_late();
        let table = self.shared.table();
        let (is_late, is_alone) = (table.is_late(), table.is_alone());
        if !is_late && !is_alone {
            return table;
        }
        drop(table);
        if is_late {
            self.shared.end_late();
        }
        if is_alone {
            self.shared.end_given_up();
        }
        self.shared.table()
    }

    /// Makes sure that some thread reads the answer for which the caller waits.
    pub(super) fn await_word(&self) {
        if self.shared.is_forked() {
            return;
        }
        self.shared.hold_back_no_more();
        let offered = blocking::offer(|| Arc::clone(&self.shared) as Arc<dyn Source>);
        if !offered && self.shared.turns.is_resting() {
            self.shared.wake_maintainer();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            return;
        }
        self.shared.closed.store(true, SeqCst);
        // The file is removed here, because the process may end before the maintainer would do it.
        self.shared.unregister();
        if let Some(socket) = &self.shared.writer().socket {
            // The socket is shut down and not only closed, because the maintainer has the socket as
            // well.
            let _ = socket.shutdown(Shutdown::Both);
        }
        let maintainer = self.shared.without_thread().take();
        if maintainer.is_none() {
            self.shared.wake_maintainer();
        }
    }
}

impl Shared {
    pub(super) fn new(
        path: PathBuf,
        files: ClientFiles,
        key: ClientKey,
        waking_end: Stream,
        interrupt: WakePipe,
        only_questions: bool,
        delegate: bool,
    ) -> io::Result<Self> {
        let owned = Arc::new(Owned::new()?);
        Ok(Self {
            path,
            files,
            key,
            only_questions,
            registration: Mutex::default(),
            table: Mutex::new(ClientTable::new(key, Arc::clone(&owned), delegate)),
            writer: Mutex::default(),
            reader: Mutex::default(),
            reads: Reads::default(),
            waking_end,
            interrupt,
            closed: AtomicBool::new(false),
            turns: ReaderTurns::default(),
            asked_at: AtomicU64::new(0),
            hearing: Mutex::default(),
            thread: ThreadState::default(),
            holds_back: AtomicBool::new(false),
            without_thread: Mutex::default(),
            owned,
            forked: OnceLock::new(),
        })
    }

    /// Whether this process is a fork of the one that has connected, and has only a copy of the
    /// connection. A fork holds no locks, and must not touch what it shares with its parent. It
    /// could not even lock the copies of our mutexes, if another thread had them locked at the time
    /// of the fork.
    pub(super) fn is_forked(&self) -> bool {
        !self.owned.is_ours()
    }

    pub(super) fn table(&self) -> MutexGuard<'_, ClientTable> {
        if self.is_forked() {
            let forked = || Mutex::new(ClientTable::of_fork(self.key, Arc::clone(&self.owned)));
            let table = self.forked.get_or_init(forked);
            return table.lock().unwrap_or_else(PoisonError::into_inner);
        }
        // A poisoned mutex may be used: only a waker's `clone` can panic while the table is locked,
        // and it is called before anything is changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reader, unless another thread has it.
    pub(super) fn try_reader(&self) -> Option<MutexGuard<'_, Option<Reader>>> {
        match self.reader.try_lock() {
            Ok(reader) => Some(reader),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Tells all waiters that there is no connection.
    pub(super) fn give_up(&self, error: &Error, waits_on: bool) {
        let mut table = self.table();
        let wakers = table.give_up(error, waits_on);
        let is_needed = table.needs_link();
        drop(table);
        if !is_needed {
            self.leave();
        }
        wake(wakers);
    }

    /// Removes our own file if we have no locks to claim, so that no daemon waits for this client.
    pub(super) fn leave(&self) {
        if self.table().leave() {
            self.unregister();
        }
    }

    /// Whether the connection has ended, even if no thread has noticed it yet.
    pub(super) fn has_hung_up(&self) -> bool {
        let socket = self.writer().socket.clone();
        socket.is_none_or(|socket| has_hung_up(&*socket))
    }

    /// Ends the locks whose term is over, and tells the daemon and the holders.
    fn end_late(&self) {
        wake(self.change(ClientTable::end_late));
    }

    /// Ends the locks whose term is over. Returns when to do that again, if there are terms.
    pub(super) fn watch_terms(&self) -> Option<Instant> {
        let next = |table: MutexGuard<'_, ClientTable>| table.earliest_term();
        if clock::until(next(self.table())?).is_zero() {
            self.end_late();
        }
        Some(Instant::now() + clock::until(next(self.table())?).min(CHECK_INTERVAL))
    }

    /// Begins to use a new connection: claims all requests and locks on it, and lets other threads
    /// read it.
    pub(super) fn connected(&self, welcomed: Welcomed) -> Result<(), Reason> {
        let Welcomed { reader: new, reach } = welcomed;
        // All earlier daemons are gone. From here on only this daemon can give us up, and if it
        // does, it does not believe our claims.
        self.end_given_up();
        self.register().map_err(|error| match error.downcast::<ConnectError>() {
            // The broker was asked for it.
            Ok(error) => error.reason,
            Err(error) => Reason::Io(REGISTERING, error.into()),
        })?;
        // Locks that are lost are not claimed.
        self.end_late();
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut writer = self.writer();
        writer.socket = Some(Arc::clone(new.socket()));
        writer.clear();
        let woken = self.table().connected(reach);
        *reader = Some(new);
        drop(reader);
        self.send(&mut writer, self.table());
        drop(writer);
        wake(woken);
        Ok(())
    }

    /// Notes that there is no connection any more. Returns whether nothing was read on it.
    pub(super) fn disconnected(&self) -> bool {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        self.disconnect(&mut reader)
    }

    /// Ends the connection of this reader.
    fn disconnect(&self, reader: &mut Option<Reader>) -> bool {
        let mut writer = self.writer();
        *reader = None;
        if let Some(socket) = writer.socket.take() {
            // The shutdown ends the connection for the daemon at once.
            let _ = socket.shutdown(Shutdown::Both);
        }
        writer.clear();
        self.table().disconnected()
    }
}

/// Starts a thread that keeps a connection.
pub(super) fn start_thread(keep: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("navlock-broker".to_owned()).spawn(|| {
        writer::never_wait();
        keep();
    })?;
    Ok(())
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("path", &self.shared.path).finish_non_exhaustive()
    }
}
