//! Looking at all that a broker's clients hold and wait for.

use std::{
    io::ErrorKind,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use navlock_core::{
    Error,
    host::Looking,
    look::{LookOptions, News, Overview},
};
use navlock_platform::wait::{self, BorrowedSource, Interest, Source};
use navlock_wire::{FromDaemon, ToDaemon};

use super::{
    handshake::{check_peer, shake_hands},
    message_stream::MessageStream,
};
use crate::{
    Place,
    client_files::ClientFiles,
    connect_error::{ConnectError, Reason},
    convert,
    daemon::RECOVERY_TIME,
    deadline::Deadline,
    spawn::connect_to_running,
};

/// How long the daemon may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// The pause between two tries of a looker to connect while there is no broker.
const RETRY: Duration = Duration::from_millis(250);

/// The pause between two such tries while clients are about to start the next broker.
const SOON: Duration = Duration::from_millis(20);

/// For how long a looker believes that clients are about to start the next broker.
const COME_BACK: Duration = Duration::from_secs(3);

/// How long a broker may say that it is recovering. This is three times the usual recovery time,
/// because its clients may be slow.
const LONGEST_RECOVERY: Duration = RECOVERY_TIME.saturating_mul(3);

/// A look at the broker of a place: an overview of its locks and requests, and then the events that
/// change the overview. A look is no client, and nobody waits for it.
///
/// While there is no broker, and no client that would start the next one, nobody holds a lock. So
/// the overview is empty until there is a broker. Between two brokers the overview stays as it was,
/// because a broker that takes over tells nothing before the clients of the last broker are back or
/// were given up. All calls block.
///
/// ```no_run
/// use navlock::{Look, LookOptions, News, Place};
///
/// let mut look = Look::new(Place::from_env()?, LookOptions::default());
/// loop {
///     match look.next(None)? {
///         Some(News::Events(events)) => println!("{} events", events.len()),
///         Some(_) => println!("{} names are in use", look.overview().queues.len()),
///         None => {}
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Look {
    place: Place,
    options: LookOptions,
    wire: Option<MessageStream>,
    overview: Overview,
    /// The picture that is being received, and how many events were missed before it.
    anew: Option<(Overview, u64)>,
    /// The PID namespace of the broker, if that is known.
    pids: Option<u64>,
    /// Whether the caller was told that there is no broker.
    is_known_gone: bool,
    /// Since when there is no broker.
    gone: Option<Instant>,
    /// Whether the broker has said that it is taking over from another one.
    is_recovering: bool,
    /// Receives the next connection, if a thread is making one.
    connecting: Option<Receiver<Result<MessageStream, Reason>>>,
}

impl Look {
    /// A look at the broker of this place. It does not connect yet.
    pub fn new(place: Place, options: LookOptions) -> Self {
        let (wire, overview) = (None, Overview::default());
        Self {
            place,
            options,
            wire,
            overview,
            anew: None,
            pids: None,
            is_known_gone: false,
            gone: None,
            is_recovering: false,
            connecting: None,
        }
    }

    /// The overview of this place now. It is empty if no broker of this user runs. Waits for a broker that is
    /// recovering. If clients are about to start the next broker, waits a moment for it. Blocks.
    ///
    /// ```no_run
    /// use navlock::{Look, LookOptions, Place};
    ///
    /// let overview = Look::once(Place::from_env()?, LookOptions::default().bucket("my-app"))?;
    /// for (name, queue) in &overview.queues {
    ///     println!("{}: {} hold, {} wait", name.name, queue.held.len(), queue.pending.len());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the broker cannot be reached, or no [broker of the machine](Place::of_system) runs.
    pub fn once(place: Place, options: LookOptions) -> Result<Overview, ConnectError> {
        let mut look = Self::new(place, options.once());
        let mut timeout = 2 * ANSWER;
        let began = Instant::now();
        loop {
            let left = timeout.saturating_sub(began.elapsed());
            match look.next(Some(left))? {
                Some(News::Anew { .. } | News::NoBroker) => return Ok(look.overview),
                Some(_) => {}
                None if look.is_recovering && timeout < LONGEST_RECOVERY => {
                    timeout = LONGEST_RECOVERY;
                }
                None => return Err(look.failed(Reason::Silent(timeout))),
            }
        }
    }

    /// Where the broker is that is looked at.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The overview, as of the last news.
    pub fn overview(&self) -> &Overview {
        &self.overview
    }

    /// The PID namespace of the broker, which is what [`pid_namespace`](crate::pid_namespace) tells the
    /// broker. `None` if it is not known, or not yet. The process ids of the broker's clients have a meaning
    /// only in this namespace.
    pub fn pid_namespace(&self) -> Option<u64> {
        self.pids
    }

    /// Waits for news, but no longer than `timeout`. `None` if there was none.
    ///
    /// # Errors
    ///
    /// If the broker cannot be reached, or has a release that does not tell. The method can be called
    /// again.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<News>, ConnectError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            match self.step(deadline) {
                Ok(Step::News(news)) => {
                    self.is_known_gone = news == News::NoBroker;
                    (self.gone, self.is_recovering) = (None, false);
                    return Ok(Some(news));
                }
                Ok(Step::Late) => return Ok(None),
                Ok(Step::More) => {}
                Err(reason) => {
                    (self.wire, self.anew) = (None, None);
                    return Err(self.failed(reason));
                }
            }
        }
    }

    fn failed(&self, reason: Reason) -> ConnectError {
        ConnectError { socket: self.place.socket().to_owned(), reason }
    }

    fn step(&mut self, deadline: Option<Instant>) -> Result<Step, Reason> {
        let Some(wire) = &mut self.wire else { return self.connect(deadline) };
        match wire.next_heard()? {
            Some(message) => self.handle_message(message),
            None if !is_readable(wire, deadline) => Ok(Step::Late),
            None => {
                match wire.read() {
                    // The next connection begins with a new picture.
                    Err(Reason::Vanished) => (self.wire, self.anew) = (None, None),
                    // Somebody was told that there is something, and there was not.
                    Ok(()) | Err(Reason::Silent(_)) => {}
                    Err(reason) => return Err(reason),
                }
                Ok(Step::More)
            }
        }
    }

    fn handle_message(&mut self, message: FromDaemon) -> Result<Step, Reason> {
        match message {
            FromDaemon::LookBegins { missed, pids } => {
                self.pids = pids;
                self.anew = Some((Overview::default(), missed));
                Ok(Step::More)
            }
            FromDaemon::LookEvents { events } => {
                let overview = self.anew.as_mut().map_or(&mut self.overview, |(anew, _)| anew);
                let events: Vec<_> = convert::events(events).collect();
                for event in &events {
                    overview.apply(event);
                }
                Ok(if self.anew.is_some() { Step::More } else { Step::News(News::Events(events)) })
            }
            FromDaemon::LookComplete => {
                let (overview, missed) = self.anew.take().ok_or(Reason::NotNavlock(None))?;
                self.overview = overview;
                Ok(Step::News(News::Anew { missed }))
            }
            FromDaemon::Recovering => {
                self.is_recovering = true;
                Ok(Step::More)
            }
            _ => Err(Reason::NotNavlock(None)),
        }
    }

    fn connect(&mut self, deadline: Option<Instant>) -> Result<Step, Reason> {
        let Some(connected) = self.connected(deadline) else { return Ok(Step::Late) };
        match connected {
            Ok(wire) => {
                self.wire = Some(wire);
                Ok(Step::More)
            }
            Err(Reason::NoSystemBroker) if self.options.once => Err(Reason::NoSystemBroker),
            Err(Reason::NotRunning | Reason::NoSystemBroker | Reason::Vanished) => {
                let since = *self.gone.get_or_insert_with(Instant::now);
                let pause = if self.is_known_gone {
                    RETRY
                } else if since.elapsed() < COME_BACK && ClientFiles::of(&self.place).has_living() {
                    // Clients still hold their locks, and are about to start the next broker.
                    SOON
                } else {
                    self.overview = Overview::default();
                    return Ok(Step::News(News::NoBroker));
                };
                let left =
                    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                let left = left.unwrap_or(pause);
                thread::sleep(left.min(pause));
                Ok(if left <= pause && deadline.is_some() { Step::Late } else { Step::More })
            }
            Err(reason) => Err(reason),
        }
    }

    /// A new connection, or why there is none. `None` if neither is known at the deadline. The try goes on
    /// in its thread, so even a caller with short timeouts is connected in the end, or learns why it is
    /// not.
    fn connected(&mut self, deadline: Option<Instant>) -> Option<Result<MessageStream, Reason>> {
        // FAST: if there is no socket, no thread is needed.
        if self.connecting.is_none() && !self.place.socket().exists() {
            return Some(begin(&self.place, &self.options));
        }
        let begun = self.connecting.take().or_else(|| {
            // FAST: if the caller has as much time as the try may take, no thread is needed.
            deadline.filter(|deadline| *deadline < Instant::now() + ANSWER)?;
            let (place, options) = (self.place.clone(), self.options.clone());
            let (connected, connection) = mpsc::sync_channel(1);
            let thread = thread::Builder::new().name("navlock-look".to_owned());
            // If the look has ended, nobody receives this.
            let connect = move || _ = connected.send(begin(&place, &options));
            thread.spawn(connect).ok().map(|_| connection)
        });
        let Some(connection) = begun else {
            return Some(begin(&self.place, &self.options));
        };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match connection.recv_timeout(left.unwrap_or(2 * ANSWER)) {
            Ok(connected) => Some(connected),
            Err(RecvTimeoutError::Timeout) => {
                self.connecting = Some(connection);
                None
            }
            Err(RecvTimeoutError::Disconnected) => Some(Err(Reason::Panicked)),
        }
    }

    /// A descriptor that becomes readable when there is news, for callers that wait for other
    /// descriptors as well. `None` while there is no broker. The descriptor may change with each
    /// call of [`next`](Self::next).
    pub fn descriptor(&self) -> Option<BorrowedSource<'_>> {
        self.wire.as_ref().map(|wire| wire.socket.source())
    }
}

/// The interface for lookers that is the same wherever the locks are kept.
impl Looking for Look {
    fn overview(&self) -> &Overview {
        self.overview()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<News>, Error> {
        self.next(timeout).map_err(Error::from)
    }
}

enum Step {
    News(News),
    Late,
    More,
}

/// Connects, and begins to look.
fn begin(place: &Place, options: &LookOptions) -> Result<MessageStream, Reason> {
    let deadline = Deadline::after(ANSWER);
    let socket = connect_to_running(place, deadline)?;
    check_peer(place, &socket)?;
    let (wire, _) = shake_hands(socket, deadline)?;
    let LookOptions { bucket, name, once, .. } = options.clone();
    wire.say(&ToDaemon::Look { bucket, name, follow: !once })?;
    wire.socket.set_nonblocking(true).map_err(|error| Reason::Io("connecting", error.into()))?;
    Ok(wire)
}

/// Waits until there is something to read, or the deadline has passed. Returns whether there is.
fn is_readable(wire: &MessageStream, deadline: Option<Instant>) -> bool {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match wait::wait([(wire.socket.source(), Interest::READ)], left) {
            Ok([ready]) => return ready.any(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The read will tell what is wrong.
            Err(_) => return true,
        }
    }
}
