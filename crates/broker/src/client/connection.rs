//! A connection that outlives its daemon: what is said on it, who hears it, and how it ends.

mod own_file;
mod reader_turns;
mod reading;
mod starting;
mod thread_state;
mod writer;

use std::{
    fmt, io,
    net::Shutdown,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering::SeqCst},
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

use self::{reader_turns::ReaderTurns, thread_state::ThreadState, writer::Writer};
use super::{
    handshake::Welcomed,
    owned::Owned,
    reader::{Reader, WakePipe, wake},
    table::Table,
};
use crate::{
    client_files::{ClientFiles, Registration},
    clock,
    connect_error::Reason,
};

/// How often the maintainer looks at the clock while there are terms: the one that it sleeps by may stand
/// still while they run out, as when the machine is suspended.
const LOOK: Duration = Duration::from_secs(1);

/// For how long there may be no daemon before those who wait for one are told. Who holds is not lost
/// by that.
pub(super) const RETURN: Duration = Duration::from_secs(9);

/// What is done when it fails.
const REGISTERING: &str = "writing to its directory";

/// What the maintainer of a connection does on its thread.
type Keeping = Box<dyn FnOnce() + Send>;

/// The owners' end of a connection: it ends with the last of them.
pub(super) struct Connection {
    shared: Arc<Shared>,
}

/// What the owners share with the thread that keeps the connection.
///
/// # Invariants
///
/// - Locks are taken in this order: reader or registration, writer, table, then what `owned` has.
/// - No waker is called, and none is dropped, under any of them.
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) files: ClientFiles,
    pub(super) key: ClientKey,
    /// There is never anything to come back to.
    pub(super) only_questions: bool,
    /// Our file among those of the clients, while there is anything to come back to.
    registration: Mutex<Option<Registration>>,
    table: Mutex<Table>,
    writer: Mutex<Writer>,
    /// Who has this hears for everybody. `None` while there is no connection.
    reader: Mutex<Option<Reader>>,
    /// A byte in here has the maintainer look what there is to do.
    nudge: Stream,
    /// A byte in here has the thread that waits with the reader let go of it.
    interrupt: WakePipe,
    /// The last owner has gone.
    closed: AtomicBool,
    pub(super) turns: ReaderTurns,
    /// Whether the maintainer has a thread. It rests as long as there is none.
    thread: ThreadState,
    /// What there is to say is kept back until somebody waits for an answer, which is soon.
    ///
    /// FAST: each message by itself would wake the daemon, while nobody needs to know yet.
    holds_back: AtomicBool,
    /// What the maintainer will do, as long as there is no thread for it.
    without_thread: Mutex<Option<Waiting>>,
    /// The names that are ours until somebody else asks for them. It knows whose process this is.
    pub(super) owned: Arc<Owned>,
    /// The table of a process that was forked from that one: nothing is in it.
    forked: OnceLock<Mutex<Table>>,
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

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table()
    }

    /// Changes something, and sends what that gives to say. Never waits.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        self.shared.change(change)
    }

    /// Changes something. What that gives to say is sent with what the next change gives, which is soon.
    pub(super) fn change_quietly<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        change(&mut self.table())
    }

    /// The table, in which nothing is held any more whose term is over, or that a daemon has given
    /// up: also if nobody could see to that in time, as when this process was stopped. While nobody
    /// hears, what has been said is heard first.
    pub(super) fn table_in_time(&self) -> MutexGuard<'_, Table> {
        self.shared.read_without_thread();
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

    /// Sees to it that the answer that the caller is waiting for is heard.
    pub(super) fn await_word(&self) {
        if self.shared.is_forked() {
            return;
        }
        self.shared.hold_back_no_more();
        let offered = blocking::offer(|| Arc::clone(&self.shared) as Arc<dyn Source>);
        if !offered && self.shared.turns.is_resting() {
            self.shared.nudge();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            return;
        }
        self.shared.closed.store(true, SeqCst);
        // The maintainer may not come to it before the process ends.
        self.shared.unregister();
        if let Some(socket) = &self.shared.writer().socket {
            // Not merely closed: the maintainer has it too.
            let _ = socket.shutdown(Shutdown::Both);
        }
        let maintainer = self.shared.without_thread().take();
        if maintainer.is_none() {
            self.shared.nudge();
        }
    }
}

impl Shared {
    pub(super) fn new(
        path: PathBuf,
        files: ClientFiles,
        key: ClientKey,
        nudge: Stream,
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
            table: Mutex::new(Table::new(key, Arc::clone(&owned), delegate)),
            writer: Mutex::default(),
            reader: Mutex::default(),
            nudge,
            interrupt,
            closed: AtomicBool::new(false),
            turns: ReaderTurns::default(),
            thread: ThreadState::default(),
            holds_back: AtomicBool::new(false),
            without_thread: Mutex::default(),
            owned,
            forked: OnceLock::new(),
        })
    }

    /// Whether this process has only a copy of the connection, made when it was forked from the one
    /// whose it is. It holds nothing, and must not touch what both have: it could not even lock it,
    /// if another thread had it locked at the time of the fork.
    pub(super) fn is_forked(&self) -> bool {
        !self.owned.is_ours()
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        if self.is_forked() {
            let forked = || Mutex::new(Table::of_fork(self.key, Arc::clone(&self.owned)));
            let table = self.forked.get_or_init(forked);
            return table.lock().unwrap_or_else(PoisonError::into_inner);
        }
        // Whole between any two statements: what could panic in there is a waker's `clone`, which
        // comes before anything is changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reader, unless somebody else has it.
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

    /// Says nothing until an answer is waited for.
    pub(super) fn hold_back(&self) {
        self.holds_back.store(true, SeqCst);
    }

    fn hold_back_no_more(&self) {
        if self.holds_back.load(SeqCst) {
            let mut writer = self.writer();
            self.holds_back.store(false, SeqCst);
            self.send(&mut writer, self.table());
            let is_left = !writer.bytes.is_empty();
            drop(writer);
            if is_left {
                self.nudge();
            }
        }
    }

    /// Tells everybody who waits that there is no connection.
    pub(super) fn give_up(&self, error: &Error) {
        let wakers = self.table().give_up(error);
        self.leave();
        wake(wakers);
    }

    /// Has no daemon wait for us if we have nothing to come back for.
    pub(super) fn leave(&self) {
        if self.table().leave() {
            self.unregister();
        }
    }

    /// Whether the connection has ended, be it that nobody has heard it yet.
    pub(super) fn has_hung_up(&self) -> bool {
        let socket = self.writer().socket.clone();
        socket.is_none_or(|socket| has_hung_up(&*socket))
    }

    /// Changes something, and sends what that gives to say. Never waits.
    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        if self.is_forked() {
            return change(&mut self.table());
        }
        let mut writer = self.writer();
        let mut table = self.table();
        let changed = change(&mut table);
        self.send(&mut writer, table);
        changed
    }

    /// Ends what is held longer than its term, and says so to all whom it concerns.
    fn end_late(&self) {
        wake(self.change(Table::end_late));
    }

    /// Ends what is held longer than its term. When that is to be done again, if there are terms.
    pub(super) fn watch_terms(&self) -> Option<Instant> {
        let next = |table: MutexGuard<'_, Table>| table.earliest_term();
        if clock::until(next(self.table())?).is_zero() {
            self.end_late();
        }
        Some(Instant::now() + clock::until(next(self.table())?).min(LOOK))
    }

    /// There is a connection: says all that there is, and has it heard.
    pub(super) fn connected(&self, welcomed: Welcomed) -> Result<(), Reason> {
        let Welcomed { reader: new, version, reach } = welcomed;
        // From here on only this daemon can give us up, and then it will not believe us. Those
        // before it are gone.
        self.end_given_up();
        self.register().map_err(|error| Reason::Io(REGISTERING, error.into()))?;
        // What is lost is not claimed.
        self.end_late();
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut writer = self.writer();
        writer.socket = Some(Arc::clone(new.socket()));
        writer.bytes.clear();
        let woken = self.table().connected(version, reach);
        *reader = Some(new);
        drop(reader);
        self.send(&mut writer, self.table());
        drop(writer);
        wake(woken);
        Ok(())
    }

    /// There is no connection any more. Whether nothing was heard on it.
    pub(super) fn disconnected(&self) -> bool {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        self.disconnect(&mut reader)
    }

    /// Ends the connection that is heard with this reader.
    fn disconnect(&self, reader: &mut Option<Reader>) -> bool {
        let mut writer = self.writer();
        *reader = None;
        if let Some(socket) = writer.socket.take() {
            // What is left of it ends for the daemon now as well.
            let _ = socket.shutdown(Shutdown::Both);
        }
        writer.bytes.clear();
        self.table().disconnected()
    }

    /// Sends what there is to say. Others may look at the table meanwhile, but not change it: what
    /// they say comes later.
    fn send(&self, writer: &mut Writer, mut table: MutexGuard<'_, Table>) {
        let was_left = !writer.bytes.is_empty();
        writer.take(&mut table.outgoing);
        if self.holds_back.load(SeqCst) {
            return;
        }
        let is_needed = writer.socket.is_none() && table.needs_link() || table.has_map_task();
        drop(table);
        let is_left = !writer.send();
        if is_left && !was_left || is_needed {
            self.nudge();
        }
    }

    /// Sends what was left. Whether that was all.
    pub(super) fn send_left(&self) -> bool {
        self.writer().send()
    }
}

/// Starts a thread that keeps a connection.
pub(super) fn start_thread(keep: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("navlock-broker".to_owned()).spawn(keep).map(drop)
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("path", &self.shared.path).finish_non_exhaustive()
    }
}
