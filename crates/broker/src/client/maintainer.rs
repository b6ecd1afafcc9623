//! The thread that keeps a connection: it hears what nobody else does, sends what was left, and
//! when the daemon dies it finds the next one.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use navlock_core::Error;
use navlock_platform::socket::Stream;

use super::{
    connect_options::ConnectOptions,
    connection::{RETURN, Shared},
    handshake,
    reader::{End, wait, wake},
};
use crate::{
    CLIENT_LOGS, Place,
    connect_error::{ConnectError, Reason},
    spawn::Patience,
};

/// For how long the maintainer leaves it to others to hear before it looks whether they do. It is called
/// back at once when an answer is waited for; what may come late is word of a loss.
///
/// FAST: where a thread takes and releases locks all the time, each look takes the CPU from it.
const REST: Duration = Duration::from_millis(4);

/// A daemon that ends sooner than this and has said nothing is as good as none. One that lasts may
/// have been waiting for others.
const BRIEF: Duration = Duration::from_secs(1);

/// How long between two tries to connect that nobody waits for.
const RETRY: Duration = Duration::from_millis(500);

/// How long between two tries to connect again.
const PAUSE: Duration = Duration::from_millis(50);

/// The maintainer of a connection.
pub(super) struct Maintainer {
    shared: Arc<Shared>,
    nudged: Stream,
    place: Place,
    options: ConnectOptions,
}

/// Who hears.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The maintainer.
    Mine,
    /// Threads that wait for their own answers. It is looked now and then whether there are any.
    Theirs,
    /// One that has been waiting for long; it will say when it is done.
    TheirsForLong,
}

impl Maintainer {
    pub(super) fn new(
        shared: Arc<Shared>,
        nudged: Stream,
        place: Place,
        options: ConnectOptions,
    ) -> Self {
        Self { shared, nudged, place, options }
    }

    /// Makes the connection once somebody needs it, and keeps it.
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
            // Who is hung up on again and again must come to an end with it.
            if !came_to_nothing {
                deadline = None;
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + RETURN);
            if came_to_nothing {
                self.pause();
            }
            // A daemon that made no sense is still there and is not asked again: its next answer
            // would make no more.
            let connected = match end {
                End::Closed if self.shared.is_closed() => return,
                End::Closed => {
                    tracing::info!(target: CLIENT_LOGS, "the connection to the broker has ended");
                    self.watched(|| self.reconnect(deadline))
                }
                End::Nonsense(why) => Err(Failed { why, is_refused: true }),
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

    /// Hears until the connection ends.
    fn listen(&mut self) -> End {
        let mut turn = Turn::Mine;
        loop {
            if self.shared.is_closed() {
                return End::Closed;
            }
            self.shared.see_to_map();
            let deadline = self.shared.watch_terms();
            self.shared.turns.set_resting(turn != Turn::Mine);
            let left = !self.shared.send_left();
            turn = match turn {
                Turn::Mine => match self.hear(left, deadline) {
                    Ok(turn) => turn,
                    Err(end) => return end,
                },
                Turn::Theirs => {
                    if wait(None, false, &self.nudged, Some(Instant::now() + REST)) {
                        Turn::Mine
                    } else {
                        self.look(left)
                    }
                }
                Turn::TheirsForLong => {
                    wait(None, false, &self.nudged, deadline);
                    Turn::Mine
                }
            };
        }
    }

    /// Waits for something, until `deadline`, and hears it, if nobody else is at it. Whose turn it is
    /// next.
    fn hear(&self, left: bool, deadline: Option<Instant>) -> Result<Turn, End> {
        let Some(mut slot) = self.shared.try_reader() else {
            return Ok(Turn::Theirs);
        };
        let Some(reader) = &mut *slot else {
            return Err(End::Closed);
        };
        if !reader.has_more() {
            wait(Some(reader.socket()), left, &self.nudged, deadline);
        }
        let heard =
            reader.hear(|message, wakers| self.shared.table().handle_message(message, wakers));
        let is_to_register = reader.was_asked_to_register();
        drop(slot);
        if is_to_register {
            self.shared.register_again();
        }
        wake(heard?);
        // Who wanted the reader and did not get it waits to be woken, and hears nothing meanwhile. It
        // is the next wait that it can hear for itself.
        let is_waiting = self.shared.table().is_waiting();
        let wanted = !is_waiting && self.shared.turns.take_wanted();
        Ok(if wanted { Turn::Theirs } else { Turn::Mine })
    }

    /// Looks whether there are others who hear. Whose turn it is next.
    fn look(&self, left: bool) -> Turn {
        let turns = &self.shared.turns;
        if self.shared.try_reader().is_some() {
            return if turns.take_taken() { Turn::Theirs } else { Turn::Mine };
        }
        // Nobody else sends what is left.
        if left {
            return Turn::Theirs;
        }
        if turns.sleep_unless_free(|| self.shared.try_reader().is_some()) {
            Turn::TheirsForLong
        } else {
            Turn::Theirs
        }
    }

    /// Waits for a daemon, which may take long. Another thread watches over what is held meanwhile: a
    /// daemon that is given up because it is slow to start is not there when it is needed.
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
            // Without it whoever asks is told in time, and only who waits to be told is told late.
            let _ = thread::Builder::new().spawn_scoped(scope, watch);
            let done = wait();
            drop(waiting);
            done
        })
    }

    /// Finds the next daemon, or starts it, and claims from it what there was.
    fn reconnect(&self, deadline: Instant) -> Result<(), Failed> {
        loop {
            if self.shared.is_closed() {
                return Ok(());
            }
            match self.try_connect(Patience::until(deadline)) {
                Err(reason) if Instant::now() + PAUSE >= deadline => {
                    return Err(self.failed(reason));
                }
                Err(_) => self.pause(),
                Ok(()) => return Ok(()),
            }
        }
    }

    fn try_connect(&self, patience: Patience) -> Result<(), Reason> {
        let welcomed = handshake::connect(&self.place, &self.options, patience)?;
        self.shared.connected(welcomed)
    }

    fn pause(&self) {
        wait(None, false, &self.nudged, Some(Instant::now() + PAUSE));
    }

    fn failed(&self, reason: Reason) -> Failed {
        // There is a daemon, and it may give others what is ours.
        let is_refused = matches!(
            reason,
            Reason::Refused(_) | Reason::NotShared | Reason::Nonsense | Reason::OtherUser(_)
        );
        let why = ConnectError { socket: self.shared.path.clone(), reason }.to_string();
        Failed { why, is_refused }
    }

    /// Tells everybody who waits that there is no connection.
    fn give_up(&self, failed: &Failed) {
        let Failed { why, is_refused } = failed;
        tracing::warn!(target: CLIENT_LOGS, is_refused, "no broker is to be had: {why}");
        self.end(failed);
    }

    fn end(&self, failed: &Failed) {
        let lost = if failed.is_refused { self.shared.table().lose(|_| true) } else { Vec::new() };
        self.shared.give_up(&Error::Unreachable(failed.why.clone()));
        wake(lost);
    }

    /// Waits until somebody needs a connection, and makes one, as long as something is held also for
    /// that. Whether there is one; if not, the owners are gone.
    fn revive(&self) -> bool {
        loop {
            if self.shared.is_closed() {
                return false;
            }
            let is_needed = self.shared.table().needs_link();
            if !is_needed && self.shared.watch_held().is_none() {
                self.shared.leave();
                wait(None, false, &self.nudged, None);
                continue;
            }
            match self.watched(|| self.try_connect(self.options.patience())) {
                Ok(()) => return true,
                Err(reason) => self.give_up(&self.failed(reason)),
            }
            let again = Instant::now() + RETRY;
            while Instant::now() < again && !self.shared.table().needs_link() {
                let Some(next) = self.shared.watch_held().filter(|_| !self.shared.is_closed())
                else {
                    break;
                };
                wait(None, false, &self.nudged, Some(next.min(again)));
            }
        }
    }
}

/// There is no connection.
struct Failed {
    why: String,
    /// There is a daemon that does not let us come back.
    is_refused: bool,
}

impl Drop for Maintainer {
    fn drop(&mut self) {
        // Also if it panicked: nobody waits for what will never be heard.
        let why = "the thread that kept the connection to the broker has ended".to_owned();
        self.end(&Failed { why, is_refused: true });
        self.shared.table().orphan();
    }
}
