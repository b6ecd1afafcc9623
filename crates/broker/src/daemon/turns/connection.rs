//! One session with its socket.

use std::{
    io::ErrorKind,
    mem,
    sync::Arc,
    task::{Context, Waker},
};

use bytes::{Buf, BytesMut};
use navlock_wire::{CodecError, Moment, Sent, decode};

use super::{
    super::{process::Process, session::Session, session_ends::End, state::Daemon},
    sockets::{Socket, Sockets},
    times::{Frame, Times},
};
use crate::{clock, sync::lock};

/// How much is read from a connection in one turn. No more than that can have been sent before the turn: a socket
/// keeps less.
const MOST: usize = 256 << 10;

/// A client that lets this many bytes lie unread is hung up on.
const MOST_UNREAD: usize = 8 << 20;

/// A client whose user shares the broker with others is hung up on at this many.
const MOST_UNREAD_OF_GUEST: usize = 4 << 20;

/// From this many bytes on it counts what a connection keeps in memory.
const MUCH: usize = 64 << 10;

/// What was read.
pub(super) enum Read {
    All,
    /// There may be more.
    More,
    /// The connection has ended, and everything before the end was read.
    End(End),
}

/// What is known of the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Nothing,
    /// It has ended, which is not told again: all is read up to the end.
    HasEnded,
    /// The client's process has ended as well.
    HasDied,
}

/// A session with its socket.
pub(super) struct Connection<S> {
    pub(super) session: Session,
    process: Option<Process>,
    stream: S,
    heard: BytesMut,
    waker: Waker,
    times: Times,
    /// Whether what is to be sent waits for room.
    awaits_room: bool,
    /// Whether that is being told.
    watches_room: bool,
    known: Known,
    /// The number of the look after which it may be in the system's list although it has nothing.
    pub(super) listed: u64,
    /// The number of the look after which it was read.
    pub(super) read_after: u64,
}

impl<S: Socket> Connection<S> {
    pub(super) fn new(
        session: Session,
        process: Option<Process>,
        (stream, heard): (S, BytesMut),
        waker: Waker,
        times: Times,
    ) -> Self {
        let (awaits_room, watches_room, known) = (false, false, Known::Nothing);
        Self {
            session,
            process,
            stream,
            heard,
            waker,
            times,
            awaits_room,
            watches_room,
            known,
            listed: 0,
            read_after: 0,
        }
    }

    /// Notes that the client's process has ended. A child of that process may keep the connection open for
    /// longer, which gives the child no locks. Only what was sent before is read.
    pub(super) fn die(&mut self) {
        self.known = Known::HasDied;
        self.fall_silent();
    }

    /// Notes that the connection has ended.
    pub(super) fn has_ended(&mut self) {
        if self.known == Known::Nothing {
            self.known = Known::HasEnded;
        }
    }

    /// Whether no message was read in part.
    pub(super) fn is_between_messages(&self) -> bool {
        self.heard.is_empty()
    }

    fn fall_silent(&mut self) {
        if self.session.fall_silent() {
            self.stream.shut_down();
        }
    }

    /// Reads what has come, and adds the messages with the times at which they count.
    pub(super) fn read(
        &mut self,
        key: usize,
        turn: Moment,
        buffer: &mut [u8],
        frames: &mut Vec<Frame>,
    ) -> Read {
        let read = self.hear(buffer);
        let first = frames.len();
        let heard = loop {
            match decode(&mut self.heard) {
                Ok(Some(Sent { at, message })) => frames.push(Frame { at, key, message }),
                Ok(None) => break read,
                Err(error) => break Read::End(End::from(error)),
            }
        };
        self.times.date(&mut frames[first..], turn, clock::now);
        match heard {
            Read::All | Read::More if self.keeps_too_much() => Read::End(End::Deaf),
            Read::End(End::Gone) if !self.heard.is_empty() && self.known != Known::HasDied => {
                Read::End(CodecError::Truncated.into())
            }
            heard => heard,
        }
    }

    /// Reads bytes, by way of this buffer. What is left is not told again, so this reads until there are none.
    fn hear(&mut self, buffer: &mut [u8]) -> Read {
        let mut left = MOST;
        while left > 0 {
            match self.stream.read(buffer) {
                Ok((0, _)) => return Read::End(End::Gone),
                Ok((read, is_all)) => {
                    self.heard.extend_from_slice(&buffer[..read]);
                    if let Some(user) = self.session.user() {
                        user.was_read(read);
                    }
                    left = left.saturating_sub(read);
                    if is_all && self.known == Known::Nothing {
                        return Read::All;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Read::All,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Read::End(error.into()),
            }
        }
        Read::More
    }

    /// Whether it keeps much in memory while its user has too much of that.
    fn keeps_too_much(&mut self) -> bool {
        let heard = self.heard.len();
        let bytes = heard + self.session.outgoing().len();
        // FAST: mostly there is little.
        if bytes <= MUCH || self.session.user().is_none() {
            return false;
        }
        self.session.count(heard);
        self.session.user().is_some_and(|user| user.keeps_too_much())
    }

    /// Whether something is to be sent that waits for room.
    pub(super) fn awaits_room(&self) -> bool {
        self.awaits_room
    }

    /// Tells the client what there is to tell, as far as there is room.
    pub(super) fn serve(&mut self) -> Result<(), End> {
        let mut context = Context::from_waker(&self.waker);
        self.awaits_room = false;
        loop {
            self.session.serve(&mut context)?;
            self.session.fill()?;
            let outgoing = self.session.outgoing();
            if outgoing.is_empty() {
                return Ok(());
            }
            match self.stream.write(outgoing) {
                Ok(sent) => outgoing.advance(sent),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let unread = outgoing.len();
                    self.awaits_room = true;
                    let is_guest = self.session.user().is_some();
                    let most = if is_guest { MOST_UNREAD_OF_GUEST } else { MOST_UNREAD };
                    let keeps_too_much = self.keeps_too_much();
                    return if unread > most || keeps_too_much { Err(End::Deaf) } else { Ok(()) };
                }
                Err(_) => {
                    self.fall_silent();
                    return Ok(());
                }
            }
        }
    }

    /// Has room told as long as something waits for it. Returns by how many more connections wait for room than
    /// before.
    pub(super) fn watch_room(&mut self, sockets: &impl Sockets<Socket = S>, key: usize) -> isize {
        let before = mem::replace(&mut self.watches_room, self.awaits_room);
        if before != self.awaits_room {
            sockets.await_room(&self.stream, key, self.awaits_room);
        }
        isize::from(self.awaits_room) - isize::from(before)
    }

    /// Whether it has room told.
    pub(super) fn watches_room(&self) -> bool {
        self.watches_room
    }

    /// Lets the socket and the process go.
    pub(super) fn leave(&self, sockets: &impl Sockets<Socket = S>, socket: usize, end: usize) {
        sockets.leave(&self.stream, socket);
        if let Some(process) = &self.process {
            sockets.leave_process(process, end);
        }
    }

    /// Ends the session.
    pub(super) fn end(self, daemon: &Arc<Daemon>, end: End) {
        let Self { session, process, stream, known, .. } = self;
        let pid = process.as_ref().map(Process::number);
        let connected = session.into_connected();
        let ending = process.filter(|process| connected.holds() && process.is_ending());
        match ending {
            // The next holder may need a file or port that the process has not closed yet.
            Some(process) => daemon.leaving.when_ended(vec![process], move || drop(connected)),
            None => drop(connected),
        }
        // FAST: this comes after the waiters for the client's locks were noted.
        drop(stream);
        let end = match end {
            // The stream may end in the middle of a message if the client was killed.
            End::Gone | End::Malformed(_) | End::Io(_) if known == Known::HasDied => End::Died,
            end => end,
        };
        lock(&daemon.ends).note(pid, &end);
    }
}
