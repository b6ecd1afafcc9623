//! The thread that keeps a connection: it reads messages that no other thread reads, sends what
//! other threads could not send at once, and finds the next daemon when the daemon dies.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use navlock_core::{Error, Unreachable};
use navlock_platform::socket::Stream;

use super::{
    connect_options::ConnectOptions,
    connection::{OUTAGE_TOLD_AFTER, Shared},
    handshake,
    reader::{End, wait, wake},
};
use crate::{
    CLIENT_LOGS, Place,
    connect_error::{ConnectError, Reason},
    deadline::Deadline,
};

/// For how long the maintainer leaves reading to other threads before it looks whether they read. If
/// somebody waits for an answer, the maintainer is called back at once. Only the message of a loss may be
/// read late.
///
/// FAST: each look takes the CPU from a thread that takes and releases locks all the time.
const REST: Duration = Duration::from_millis(4);

/// A daemon that ends sooner than this and has said nothing counts as no daemon. A daemon that
/// lasts longer may have been waiting for other clients.
const BRIEF: Duration = Duration::from_secs(1);

/// The pause between two tries to connect after the waiters were told that there is no daemon. A new
/// waiter ends the pause.
const RETRY: Duration = Duration::from_millis(500);

/// The pause between two tries to connect before the waiters are told that there is no daemon.
const PAUSE: Duration = Duration::from_millis(50);

/// The maintainer of a connection.
pub(super) struct Maintainer {
    shared: Arc<Shared>,
    wake_end: Stream,
    place: Place,
    options: ConnectOptions,
}

/// Whose turn it is to read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReaderTurn {
    /// The maintainer.
    Mine,
    /// Threads that wait for their own answers. The maintainer looks now and then whether there are
    /// such threads.
    Theirs,
    /// A thread that has been waiting for long. This thread wakes the maintainer when it is done.
    TheirsForLong,
}

impl Maintainer {
    pub(super) fn new(
        shared: Arc<Shared>,
        wake_end: Stream,
        place: Place,
        options: ConnectOptions,
    ) -> Self {
        Self { shared, wake_end, place, options }
    }

    /// Makes the connection when somebody needs it, and then keeps it.
    pub(super) fn run_when_needed(self) {
        if self.revive() {
            self.run();
        }
    }

    /// Keeps the connection until its owners are gone.
    pub(super) fn run(mut self) {
        let mut deadline = None;
        loop {
            let began = Instant::now();
            let end = self.listen();
            let came_to_nothing = self.shared.disconnected() && began.elapsed() < BRIEF;
            self.shared.end_given_up();
            // The deadline stays if the connection came to nothing. So if daemons hang up on a client again
            // and again, the client gives up when the deadline has come.
            if !came_to_nothing {
                deadline = None;
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + OUTAGE_TOLD_AFTER);
            if came_to_nothing {
                self.pause();
            }
            // A daemon that refuses, or whose message was not understood, is still there. The
            // client does not ask it again, because its next answer would be no better.
            let connected = match end {
                End::Closed if self.shared.is_closed() => return,
                End::Closed => {
                    tracing::info!(target: CLIENT_LOGS, "the connection to the broker has ended");
                    self.watched(|| self.reconnect(deadline))
                }
                End::Unusable(why) => Err(Failed { why, is_refused: true, waits_on: false }),
            };
            if self.shared.is_closed() {
                return;
            }
            if connected.is_ok() {
                tracing::info!(target: CLIENT_LOGS, "connected to a broker again");
            }
            if let Err(failed) = connected {
                self.give_up(&failed);
                if !self.revive() {
                    return;
                }
            }
        }
    }

    /// Reads until the connection ends.
    fn listen(&mut self) -> End {
        let mut turn = ReaderTurn::Mine;
        loop {
            if self.shared.is_closed() {
                return End::Closed;
            }
            self.shared.see_to_map();
            let deadline = self.shared.watch_terms();
            self.shared.turns.set_resting(turn != ReaderTurn::Mine);
            let left = !self.shared.send_left();
            turn = match turn {
                ReaderTurn::Mine => match self.read_messages(left, deadline) {
                    Ok(turn) => turn,
                    Err(end) => return end,
                },
                ReaderTurn::Theirs => {
                    if wait(None, false, &self.wake_end, Some(Instant::now() + REST)) {
                        ReaderTurn::Mine
                    } else {
                        self.look(left)
                    }
                }
                ReaderTurn::TheirsForLong => {
                    wait(None, false, &self.wake_end, deadline);
                    ReaderTurn::Mine
                }
            };
        }
    }

    /// If no other thread has the reader, waits for messages until `deadline`, and reads them.
    /// Returns whose turn it is next.
    fn read_messages(&self, left: bool, deadline: Option<Instant>) -> Result<ReaderTurn, End> {
        let Some(mut slot) = self.shared.try_reader() else {
            return Ok(ReaderTurn::Theirs);
        };
        let Some(reader) = &mut *slot else {
            return Err(End::Closed);
        };
        if !reader.has_more() {
            wait(Some(reader.socket()), left, &self.wake_end, deadline);
        }
        let mut wakers = Vec::new();
        let shared = &self.shared;
        let handle = |message| shared.table().handle_message(message, &mut wakers);
        let heard = shared.reads.read(reader, handle);
        let is_to_register = reader.was_asked_to_register();
        drop(slot);
        if is_to_register {
            self.shared.register_again(&mut wakers);
        }
        wake(wakers);
        heard?;
        // A thread that wanted the reader and did not get it waits to be woken, and does not read in this
        // wait. So the maintainer reads on as long as anybody waits. After that, it leaves the reading to
        // the other threads, because such a thread can read for itself in its next wait.
        let is_waiting = self.shared.table().is_waiting();
        let wanted = !is_waiting && self.shared.turns.take_wanted();
        Ok(if wanted { ReaderTurn::Theirs } else { ReaderTurn::Mine })
    }

    /// Looks whether other threads read. Returns whose turn it is next.
    fn look(&self, left: bool) -> ReaderTurn {
        let turns = &self.shared.turns;
        if self.shared.try_reader().is_some() {
            return if turns.take_taken() { ReaderTurn::Theirs } else { ReaderTurn::Mine };
        }
        // Nobody else sends what is left.
        if left {
            return ReaderTurn::Theirs;
        }
        if turns.sleep_unless_free(|| self.shared.try_reader().is_some()) {
            ReaderTurn::TheirsForLong
        } else {
            ReaderTurn::Theirs
        }
    }

    /// Waits for a daemon, however long the daemon takes to start. Meanwhile another thread watches
    /// over the locks that are held. If this thread did both, it would have to cut its wait short,
    /// and the client would be left without the daemon.
    fn watched<T>(&self, wait: impl FnOnce() -> T) -> T {
        if self.shared.watch_held().is_none() {
            return wait();
        }
        thread::scope(|scope| {
            let (waiting, has_ended) = mpsc::channel::<()>();
            let watch = move || {
                while let Some(next) = self.shared.watch_held() {
                    let left = next.saturating_duration_since(Instant::now());
                    if has_ended.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                }
            };
            // If no thread can be had, a holder that asks still learns of a loss in time. Only a
            // holder that waits for the news gets it late.
            let _ = thread::Builder::new().spawn_scoped(scope, watch);
            let done = wait();
            drop(waiting);
            done
        })
    }

    /// Finds or starts the next daemon, and claims all locks and requests from it.
    fn reconnect(&self, deadline: Instant) -> Result<(), Failed> {
        loop {
            if self.shared.is_closed() {
                return Ok(());
            }
            match self.try_connect(Deadline::at(deadline)) {
                Err(reason) if Instant::now() + PAUSE >= deadline => {
                    return Err(self.failed(reason));
                }
                Err(_) => self.pause(),
                Ok(()) => return Ok(()),
            }
        }
    }

    fn try_connect(&self, deadline: Deadline) -> Result<(), Reason> {
        let welcomed = handshake::connect(&self.place, &self.options, deadline)?;
        self.shared.connected(welcomed)
    }

    fn pause(&self) {
        wait(None, false, &self.wake_end, Some(Instant::now() + PAUSE));
    }

    fn failed(&self, reason: Reason) -> Failed {
        // Each of these reasons says that there is a daemon, which may grant our locks to others.
        let is_refused = matches!(
            reason,
            Reason::Refused(_) | Reason::NotShared | Reason::NotNavlock(_) | Reason::OtherUser(_)
        );
        let waits_on = self.place.is_of_system() && !is_refused;
        let why = ConnectError { socket: self.shared.path.clone(), reason }.into();
        Failed { why, is_refused, waits_on }
    }

    /// Tells all waiters that there is no connection.
    fn give_up(&self, failed: &Failed) {
        let Failed { why, is_refused, waits_on } = failed;
        // Those who wait on were told when the connection ended, and are not told at each try.
        if !waits_on {
            tracing::warn!(target: CLIENT_LOGS, is_refused, "no broker is to be had: {why}");
        }
        self.end(failed);
    }

    fn end(&self, failed: &Failed) {
        let lost = if failed.is_refused { self.shared.table().lose(|_| true) } else { Vec::new() };
        self.shared.give_up(&Error::Unreachable(failed.why.clone()), failed.waits_on);
        wake(lost);
    }

    /// Makes a connection when somebody needs one. While locks are held, tries even if nobody needs
    /// one. Returns whether there is a connection. If not, the owners are gone.
    fn revive(&self) -> bool {
        loop {
            if self.shared.is_closed() {
                return false;
            }
            let is_needed = self.shared.table().needs_link();
            if !is_needed && self.shared.watch_held().is_none() {
                self.shared.leave();
                wait(None, false, &self.wake_end, None);
                continue;
            }
            let waits_on = match self.watched(|| self.try_connect(self.options.deadline())) {
                Ok(()) => return true,
                Err(reason) => {
                    let failed = self.failed(reason);
                    self.give_up(&failed);
                    failed.waits_on && self.shared.table().needs_link()
                }
            };
            let again = Instant::now() + RETRY;
            while Instant::now() < again && (waits_on || !self.shared.table().needs_link()) {
                let next = self.shared.watch_held();
                if self.shared.is_closed() || next.is_none() && !waits_on {
                    break;
                }
                wait(None, false, &self.wake_end, Some(next.map_or(again, |next| next.min(again))));
            }
        }
    }
}

/// Why there is no connection.
struct Failed {
    why: Unreachable,
    /// Whether there is a daemon, and it does not let us come back.
    is_refused: bool,
    /// Whether requests wait on, because the daemon is the machine's, which only an administrator can start or mend.
    waits_on: bool,
}

impl Drop for Maintainer {
    fn drop(&mut self) {
        // This is done after a panic as well, so that nobody waits for an answer that never comes.
        let why = Unreachable::other("the thread that kept the connection to the broker has ended");
        self.end(&Failed { why, is_refused: true, waits_on: false });
        self.shared.table().orphan();
    }
}
