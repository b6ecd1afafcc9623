//! A connection to the daemon itself: asks for its status, sets its log, and ends it.
//!
//! Such a connection is no client: it has no agents and no file. So it works even if the disk is
//! full, and the daemon answers it even while it waits for clients to come back.

mod stealing;

use std::{
    io::{ErrorKind, Read},
    time::Duration,
};

use navlock_platform::{
    peer,
    process::{Handle, Signal, has_open},
    socket::Stream,
};
use navlock_wire::{FromDaemon, Status, ToDaemon};

use super::{
    handshake::{check_peer, shake_hands},
    message_stream::MessageStream,
};
use crate::{
    Place,
    connect_error::{ConnectError, Reason},
    deadline::Deadline,
    lock_file,
    spawn::connect_to_running,
};

/// How long the daemon may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// How long the daemon may take to end.
const END: Duration = Duration::from_secs(10);

/// A connection to the daemon itself.
#[derive(Debug)]
pub struct Control {
    place: Place,
    stream: MessageStream,
    process: Option<Handle>,
}

/// How a daemon was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// The daemon's status before its end, if the daemon told it.
    pub status: Option<Status>,
    /// Whether the daemon was sent SIGTERM, because it did not answer, or because it refused to be
    /// spoken to, as a daemon of another version does.
    pub signalled: bool,
}

impl Control {
    /// Connects to the daemon at this place, if there is one. Blocks.
    ///
    /// ```
    /// use navlock_broker::{Control, Place, Reason};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let socket = directory.path().join("sock");
    /// let place = Place::at(socket);
    /// match Control::connect(&place) {
    ///     Ok(mut control) => println!("broker {} is running", control.status()?.pid),
    ///     Err(error) if *error.reason() == Reason::NotRunning => println!("no broker is running"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Why there is no connection; [`Reason::NotRunning`] if there is no daemon.
    pub fn connect(place: &Place) -> Result<Self, ConnectError> {
        let connect = || {
            let (socket, process) = open(place)?;
            Ok(Self { place: place.clone(), stream: greet(socket)?, process })
        };
        connect().map_err(|reason| failed(place, reason))
    }

    /// The daemon's status. Blocks.
    ///
    /// ```no_run
    /// use navlock_broker::{Control, Place};
    ///
    /// let mut control = Control::connect(&Place::from_env()?)?;
    /// let status = control.status()?;
    /// print!("{}", status.numbers.prometheus());
    /// for end in status.ends {
    ///     eprintln!("the session of process {:?} has ended: {}", end.pid, end.why);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the daemon does not answer.
    pub fn status(&mut self) -> Result<Status, ConnectError> {
        self.ask_status().map_err(|reason| failed(&self.place, reason))
    }

    fn ask_status(&mut self) -> Result<Status, Reason> {
        self.stream.say(&ToDaemon::Status { query: 0 })?;
        self.read_until(|message| match message {
            FromDaemon::Status { status, .. } => Some(status),
            _ => None,
        })
    }

    /// Sets what the daemon logs, by a filter in the form that the daemon's program takes. Returns
    /// what the daemon logs from now on, or why this has not changed, for people. Blocks.
    ///
    /// ```no_run
    /// use navlock_broker::{Control, Place};
    ///
    /// match Control::connect(&Place::from_env()?)?.set_log("debug")? {
    ///     Ok(filter) => println!("the broker logs {filter} from now on"),
    ///     Err(why) => eprintln!("nothing has changed: {why}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn set_log(&mut self, filter: &str) -> Result<Result<String, String>, ConnectError> {
        self.say_log(filter).map_err(|reason| failed(&self.place, reason))
    }

    fn say_log(&mut self, filter: &str) -> Result<Result<String, String>, Reason> {
        self.stream.say(&ToDaemon::Log { query: 1, filter: filter.to_owned() })?;
        self.read_until(|message| match message {
            FromDaemon::Logs { outcome, .. } => Some(outcome),
            _ => None,
        })
    }

    /// Ends the daemon.
    fn end(mut self) -> Result<Stopped, Reason> {
        let status = self.ask_status().ok();
        self.stream.say(&ToDaemon::Stop)?;
        let stopping =
            self.read_until(|message| matches!(message, FromDaemon::Stopping).then_some(()));
        match stopping {
            Ok(()) | Err(Reason::Vanished) => {}
            Err(reason) => return Err(reason),
        }
        // The connection ends with the daemon. If the daemon's process is known, we wait for the end
        // of the process as well.
        let _ = self.stream.socket.set_read_timeout(Some(END));
        let closed = !matches!(
            self.stream.socket.read(&mut [0]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        );
        let pid = status.as_ref().map(|status| status.pid);
        let process = self.process.filter(|process| Some(process.number()) == pid);
        let has_ended = closed && process.is_none_or(|process| process.ends_within(END));
        let stopped = Stopped { status, signalled: false };
        if has_ended { Ok(stopped) } else { Err(Reason::Hangs(pid)) }
    }

    /// Reads messages until one is `wanted`.
    fn read_until<T>(&mut self, wanted: impl Fn(FromDaemon) -> Option<T>) -> Result<T, Reason> {
        loop {
            if let Some(wanted) = wanted(self.stream.receive()?) {
                return Ok(wanted);
            }
        }
    }
}

/// Ends the daemon at this place, and waits until it has ended. Its clients start another daemon
/// and keep their locks. Returns `None` if there is no daemon. Blocks.
///
/// A daemon that does not answer, or refuses because it speaks another version, is sent SIGTERM.
/// This is done only if the kernel says which process listens, and that this process has the
/// daemon's lock file open.
///
/// ```no_run
/// use navlock_broker::{Place, stop};
///
/// match stop(&Place::from_env()?)? {
///     Some(stopped) if stopped.signalled => println!("the broker was sent SIGTERM and has ended"),
///     Some(_) => println!("the broker has ended"),
///     None => println!("no broker was running"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the place cannot be used, or the daemon does not end.
pub fn stop(place: &Place) -> Result<Option<Stopped>, ConnectError> {
    let (socket, process) = match open(place) {
        Ok(found) => found,
        Err(Reason::NotRunning | Reason::NoSystemBroker) => return Ok(None),
        Err(reason) => return Err(failed(place, reason)),
    };
    let stopped = match greet(socket) {
        Ok(stream) => Control { place: place.clone(), stream, process }.end(),
        Err(Reason::Vanished) => Ok(Stopped { status: None, signalled: false }),
        Err(Reason::Silent(_) | Reason::Refused(_)) => {
            let process = process.filter(|process| has_lock_of(process, place));
            signal(process).map(|()| Stopped { status: None, signalled: true })
        }
        Err(reason) => Err(reason),
    };
    stopped.map(Some).map_err(|reason| failed(place, reason))
}

fn failed(place: &Place, reason: Reason) -> ConnectError {
    ConnectError { socket: place.socket().to_owned(), reason }
}

/// Connects to the daemon, if the process at the other end may be trusted. Returns that process, if it is
/// known.
fn open(place: &Place) -> Result<(Stream, Option<Handle>), Reason> {
    let socket = connect_to_running(place, Deadline::after(ANSWER))?;
    check_peer(place, &socket)?;
    let process = peer::listener(&socket);
    Ok((socket, process))
}

fn greet(socket: Stream) -> Result<MessageStream, Reason> {
    let (mut stream, _) = shake_hands(socket, Deadline::after(ANSWER))?;
    stream.set_patience(ANSWER)?;
    Ok(stream)
}

/// Ends a process, and waits until it has ended. Signals it twice, because a process may take the
/// first signal and not end.
fn signal(process: Option<Handle>) -> Result<(), Reason> {
    let Some(process) = process else {
        return Err(Reason::Hangs(None));
    };
    for _ in 0..2 {
        // SIGCONT is for a process that was stopped, which takes SIGTERM only when it goes on. If
        // signals cannot be sent, the process does not end, and the wait below notices that.
        process.signal(Signal::TERMINATE);
        process.signal(Signal::CONTINUE);
        if process.ends_within(END / 2) {
            return Ok(());
        }
    }
    Err(Reason::Hangs(Some(process.number())))
}

/// Whether this process is the daemon of the place: whether it has the place's lock file open.
fn has_lock_of(process: &Handle, place: &Place) -> bool {
    let Some(lock) = lock_file::identity_at(&place.broker_lock()) else {
        return false;
    };
    // As long as the process has not ended, no other process has its id.
    has_open(process.number(), lock, "lock") && !process.has_ended()
}
