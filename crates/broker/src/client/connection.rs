//! A connection that outlives its daemon: what is said on it, who hears it, and how it ends.

use std::{
    fmt,
    io::{self, Write},
    mem,
    net::Shutdown,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use navlock_core::{
    Error,
    blocking::{self, Source},
};
use navlock_delegation::OwnerMap;
use navlock_platform::{socket::Stream, wait::has_hung_up};
use navlock_wire::ClientKey;

use super::{
    handshake::Welcomed,
    owned::Owned,
    reader::{End, Reader, WakePipe, send, wait, wake},
    table::{MapTask, Table},
};
use crate::{
    CLIENT_LOGS,
    client_files::{ClientFiles, Registration},
    clock,
    connect_error::{ConnectError, Reason},
    inherited_claims,
};

/// How often the maintainer looks at the clock while there are terms: the one that it sleeps by may stand
/// still while they run out, as when the machine is suspended.
const LOOK: Duration = Duration::from_secs(1);

/// How often it is looked, while there is no daemon, whether one has given us up: several times in
/// the second that it leaves us to notice.
const LOOK_ALONE: Duration = Duration::from_millis(100);

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

/// How often it is tried again to have a thread, while somebody waits for the connection that it is to
/// make.
const LOOK_FOR_THREAD: Duration = Duration::from_millis(200);

/// How long it may take another thread to hear what has been said.
const MOMENT: Duration = Duration::from_millis(500);

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
    pub(super) turns: Turns,
    /// What the maintainer will do, as long as there is no thread for it.
    without_thread: Mutex<Option<Waiting>>,
    /// The names that are ours until somebody else asks for them. It knows whose process this is.
    pub(super) owned: Arc<Owned>,
    /// The table of a process that was forked from that one: nothing is in it.
    forked: OnceLock<Mutex<Table>>,
}

/// Whose turn it is to hear.
///
/// A thread that blocks for an answer hears it itself if it can: to be woken for it by another
/// thread would cost as much again as the answer. So that it finds the reader free, the maintainer rests
/// while there are such threads, and comes back when there have been none for a moment.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// A thread wanted the reader and did not get it.
    pub(super) wanted: AtomicBool,
    /// A thread had it since the maintainer looked last.
    pub(super) taken: AtomicBool,
    /// The maintainer does not hear for the moment.
    pub(super) resting: AtomicBool,
    /// The maintainer will not come back unless it is nudged.
    pub(super) asleep: AtomicBool,
    /// There is no thread for the maintainer, and it rests for that.
    pub(super) without_thread: AtomicBool,
    /// There is something for the maintainer to do, and there was no thread to be had for it.
    pub(super) lacks_thread: AtomicBool,
    /// What there is to say is kept back until somebody waits for an answer, which is soon.
    ///
    /// FAST: each message by itself would wake the daemon, while nobody needs to know yet.
    pub(super) holds_back: AtomicBool,
}

/// A maintainer without a thread.
struct Waiting {
    shared: Arc<Shared>,
    keeping: Keeping,
}

/// What is on its way to the daemon. Nobody waits for a daemon that does not listen: what it does
/// not take at once, the maintainer sends later.
#[derive(Default)]
struct Writer {
    socket: Option<Arc<Stream>>,
    bytes: BytesMut,
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
        if !offered && self.shared.turns.resting.load(SeqCst) {
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
            turns: Turns::default(),
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
        self.turns.holds_back.store(true, SeqCst);
    }

    fn hold_back_no_more(&self) {
        if self.turns.holds_back.load(SeqCst) {
            let mut writer = self.writer();
            self.turns.holds_back.store(false, SeqCst);
            self.send(&mut writer, self.table());
            let is_left = !writer.bytes.is_empty();
            drop(writer);
            if is_left {
                self.nudge();
            }
        }
    }

    /// Leaves it until there is something to do for the maintainer to start a thread, on which this is done.
    pub(super) fn start_thread_later(self: &Arc<Self>, keeping: impl FnOnce() + Send + 'static) {
        let (shared, keeping) = (Arc::clone(self), Box::new(keeping));
        *self.without_thread() = Some(Waiting { shared, keeping });
        self.turns.resting.store(true, SeqCst);
        self.turns.without_thread.store(true, SeqCst);
    }

    fn without_thread(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.without_thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the maintainer's thread, if it has none.
    pub(super) fn keep(&self) -> io::Result<()> {
        if self.is_forked() || !self.turns.without_thread.load(SeqCst) {
            return Ok(());
        }
        self.hold_back_no_more();
        let without_thread = self.without_thread();
        let Some(waiting) = &*without_thread else { return Ok(()) };
        // It takes the maintainer itself: if there is no thread to be had, that stays where it is.
        let shared = Arc::clone(&waiting.shared);
        start_thread(move || {
            let taken = shared.without_thread().take();
            drop(shared);
            if let Some(Waiting { shared, keeping }) = taken {
                drop(shared);
                keeping();
            }
        })?;
        self.turns.without_thread.store(false, SeqCst);
        drop(without_thread);
        Ok(())
    }

    /// What becomes readable when there is something to hear that nobody hears. `None` if somebody
    /// does, or there is already something, or something to do that needs a thread.
    pub(super) fn unheard(&self) -> Option<Arc<Stream>> {
        let turns = &self.turns;
        let is_unkept = turns.without_thread.load(SeqCst) && !turns.lacks_thread.load(SeqCst);
        // A term ends without a word.
        if self.is_forked() || !is_unkept || self.table().earliest_term().is_some() {
            return None;
        }
        let reader = self.try_reader()?;
        let reader = reader.as_ref().filter(|reader| !reader.has_more())?;
        Some(Arc::clone(reader.socket()))
    }

    /// Has the maintainer look what there is to do.
    pub(super) fn nudge(&self) {
        // If there is no thread to be had, it is tried again with the next nudge, and by who waits.
        let _ = self.try_keep();
        // A full pipe is as good: it has a byte in it.
        let _ = (&self.nudge).write(&[0]);
    }

    /// Starts the maintainer's thread, if it has none, and notes whether there was one to be had.
    fn try_keep(&self) -> io::Result<()> {
        let kept = self.keep();
        self.turns.lacks_thread.store(kept.is_err(), SeqCst);
        kept
    }

    /// Waits for a moment for what keeps the connection to have a thread, without which there is never
    /// an answer. Whether there is none yet: whoever has waited as long for it as for a daemon is told.
    fn wait_for_thread(&self, deadline: Option<Instant>) -> bool {
        let Err(error) = self.try_keep() else { return false };
        self.end_given_up();
        let lacked = self.table().needed_since().map(clock::since);
        if lacked.is_some_and(|lacked| lacked >= RETURN) {
            let reason = Reason::Io("starting a thread", error.into());
            let why = ConnectError { socket: self.path.clone(), reason }.to_string();
            self.give_up(&Error::Unreachable(why));
            return true;
        }
        let look = Instant::now() + LOOK_FOR_THREAD;
        let until = deadline.map_or(look, |deadline| deadline.min(look));
        wait(None, false, self.interrupt.end(), Some(until));
        true
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

    fn registration(&self) -> MutexGuard<'_, Option<Registration>> {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it known that we live. Before anything is asked for, or a new daemon would not wait for
    /// us.
    fn register(&self) -> io::Result<()> {
        if self.only_questions {
            return Ok(());
        }
        let mut registration = self.registration();
        // Somebody may have removed it.
        if !registration.as_ref().is_some_and(Registration::stands) {
            *registration = Some(self.files.register(self.key)?);
            self.change(Table::file_replaced);
        }
        Ok(())
    }

    /// Does what is to be done with our file, which may take a moment: makes it a map, or one with more
    /// room.
    pub(super) fn see_to_map(&self) {
        let task = self.table().take_map_task();
        match task {
            None => {}
            Some(MapTask::Make) => {
                // Nobody puts another in its place meanwhile.
                let registration = self.registration();
                let gone = || Err(io::ErrorKind::NotFound.into());
                let made =
                    registration.as_ref().map_or_else(gone, |own| OwnerMap::make(own.file()));
                self.change(|table| table.map_made(made));
            }
            Some(MapTask::Grow) => {
                // If there is no room, there are as many as there were.
                if let Some(slots) = self.owned.map().and_then(|map| map.grow().ok()) {
                    self.owned.grown(slots);
                }
            }
        }
    }

    /// Whether no daemon has given us up.
    fn stands(&self) -> bool {
        // If it is being made, whoever does that has looked before.
        self.try_stands().unwrap_or(true)
    }

    /// The same, where whoever makes it may not have looked.
    pub(super) fn stands_for_certain(&self) -> bool {
        self.try_stands().unwrap_or(false)
    }

    /// Whether our file stands, unless somebody is at it.
    fn try_stands(&self) -> Option<bool> {
        match self.registration.try_lock() {
            Ok(registration) => Some(registration.as_ref().is_some_and(Registration::stands)),
            Err(TryLockError::Poisoned(_)) => Some(false),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether the connection has ended, be it that nobody has heard it yet.
    pub(super) fn has_hung_up(&self) -> bool {
        let socket = self.writer().socket.clone();
        socket.is_none_or(|socket| has_hung_up(&*socket))
    }

    /// Ends what is held if a daemon has given us up, or if none would have waited for us; of what
    /// others have inherited, the same is asked. To be called while there is no connection.
    pub(super) fn end_given_up(&self) {
        if self.stands() || !self.table().is_alone() {
            return;
        }
        let inherited = self.files.inherited(self.key).ok().flatten();
        let claims = inherited.and_then(|mut inherited| inherited.claims().ok());
        let inherited =
            claims.and_then(|claims| inherited_claims::locks(&claims)).unwrap_or_default();
        let holds = self.table().holds();
        let lost = self.table().lose(|id| !inherited.contains(&id));
        if holds {
            tracing::warn!(
                target: CLIENT_LOGS,
                "a broker has given this client up, or its file was removed: what it held is lost"
            );
        }
        wake(lost);
    }

    /// Ends what is not ours any more, of which there is no daemon to tell us. When that is to be
    /// done again, if anything is held.
    pub(super) fn watch_held(&self) -> Option<Instant> {
        let terms = self.watch_terms();
        self.end_given_up();
        let alone = self.table().holds().then(|| Instant::now() + LOOK_ALONE);
        terms.into_iter().chain(alone).min()
    }

    /// Somebody may have removed our file.
    pub(super) fn register_again(&self) {
        // Who has none yet is no client that anybody waits for. If it fails, we are as we were.
        if self.registration().is_some() {
            let _ = self.register();
        }
    }

    /// Has nobody wait for us any more.
    pub(super) fn unregister(&self) {
        *self.registration() = None;
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
        if self.turns.holds_back.load(SeqCst) {
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

/// What became of hearing what there was.
enum Heard {
    /// Another thread is at it, or there is no connection.
    Elsewhere,
    Nothing,
    Word,
    End,
}

impl Shared {
    /// Hears what there is once it is `ready`, and wakes whom it concerns.
    fn hear(&self, ready: impl FnOnce(&mut Reader)) -> Heard {
        let Some(mut slot) = self.try_reader() else {
            self.turns.wanted.store(true, SeqCst);
            return Heard::Elsewhere;
        };
        let Some(reader) = &mut *slot else {
            return Heard::Elsewhere;
        };
        self.turns.taken.store(true, SeqCst);
        ready(reader);
        let mut is_word = false;
        let heard = reader.hear(|message, wakers| {
            is_word = true;
            self.table().take_in(message, wakers);
        });
        let is_to_register = reader.was_asked_to_register();
        let is_over = match &heard {
            Ok(_) => false,
            // The maintainer hears it as well, once it has a thread. Until then nobody must take what is
            // held for what a daemon watches over.
            Err(End::Closed) => self.turns.without_thread.load(SeqCst),
            // That there was nonsense it is to hear itself, if it can.
            Err(End::Nonsense(_)) => self.keep().is_err(),
        };
        if is_over {
            // While we have the reader, so that it is no later connection that ends.
            self.disconnect(&mut slot);
        }
        drop(slot);
        if is_to_register {
            self.register_again();
        }
        // What this thread does next may take long, and it does not hear meanwhile. And what it has
        // heard may be a term, by which the maintainer must look again.
        let has_terms = || self.table().earliest_term().is_some();
        if self.turns.asleep.swap(false, SeqCst)
            || self.turns.without_thread.load(SeqCst) && has_terms()
        {
            self.nudge();
        }
        let Ok(wakers) = heard else {
            self.nudge();
            return Heard::End;
        };
        wake(wakers);
        if is_word { Heard::Word } else { Heard::Nothing }
    }

    /// Hears what has been said already, also if another thread is about to.
    pub(super) fn hear_all(&self) {
        if self.is_forked() {
            return;
        }
        let deadline = Instant::now() + MOMENT;
        loop {
            match self.hear(|_| {}) {
                Heard::Word => {}
                Heard::Nothing | Heard::End => return,
                Heard::Elsewhere => {
                    let is_connected = self.writer().socket.is_some();
                    if !is_connected || Instant::now() >= deadline {
                        return;
                    }
                    // Whoever has the reader hears what there is, and lets go of it.
                    self.nudge();
                    self.interrupt.wake();
                    thread::yield_now();
                }
            }
        }
    }

    /// Hears what has been said already, if there is no thread that does.
    fn read_without_thread(&self) {
        if self.is_forked() || !self.turns.without_thread.load(SeqCst) {
            return;
        }
        let is_waiting = self.table().is_waiting();
        let mut is_word = false;
        while matches!(self.hear(|_| {}), Heard::Word) {
            is_word = true;
        }
        // Whoever has looked before does not know of it, and waits for what is heard already.
        if is_word && !is_waiting {
            self.nudge();
        }
    }
}

impl Writer {
    /// Puts this after what was left.
    fn take(&mut self, new: &mut BytesMut) {
        if self.bytes.is_empty() {
            mem::swap(&mut self.bytes, new);
        } else {
            self.bytes.extend_from_slice(new);
            new.clear();
        }
    }

    /// Sends what there is. Whether that was all.
    fn send(&mut self) -> bool {
        match &self.socket {
            Some(socket) => send(socket, &mut self.bytes),
            None => true,
        }
    }
}

impl Source for Shared {
    fn wait(&self, deadline: Option<Instant>, is_woken: &dyn Fn() -> bool) -> bool {
        if self.is_forked() {
            return false;
        }
        let heard = self.hear(|reader| {
            if !reader.has_more() && !is_woken() {
                reader.wait(self.interrupt.end(), deadline);
            }
        });
        match heard {
            Heard::Nothing | Heard::Word => true,
            Heard::Elsewhere | Heard::End if self.turns.lacks_thread.load(SeqCst) => {
                is_woken() || self.wait_for_thread(deadline)
            }
            Heard::Elsewhere | Heard::End => false,
        }
    }

    fn interrupt(&self) {
        if !self.is_forked() {
            self.interrupt.wake();
        }
    }

    fn leave(&self) {
        if !self.is_forked() && self.table().is_waiting() {
            self.nudge();
        }
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
