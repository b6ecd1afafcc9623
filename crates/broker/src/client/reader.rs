//! Waits for messages of a daemon, and reads them.

use std::{
    io::{self, Read, Write},
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};
pub(super) use navlock_core::host::wake_all as wake;
use navlock_core::{Unreachable, UnreachableKind};
use navlock_platform::{
    socket::{self, Stream, read_into_spare},
    wait::{self, Interest, Pair, Source},
};
use navlock_wire::{CodecError, FromDaemon, decode};

/// How many bytes are read at once.
const READ_SIZE: usize = 16 << 10;

/// The reading end of a connection.
pub(super) struct Reader {
    socket: Arc<Stream>,
    heard: BytesMut,
    /// FAST: mostly only a little is read, and memory that was never written to costs nothing.
    buffer: Vec<u8>,
    /// Whether something was read that is not decoded yet.
    fresh: bool,
    /// Whether the connection has ended, and `hear` has not returned that yet. The system does not
    /// report the end again.
    ends: bool,
    /// Lets the thread that waits for its own answer sleep until something can be read.
    watch: Option<Pair>,
    /// Why the daemon is of no use any more: it refuses to go on, or one of its messages cannot be
    /// understood. Nothing after such a message is read.
    unusable: Option<Unreachable>,
    /// Whether the daemon has asked us to check our own file.
    asked_to_register: bool,
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    Closed,
    Unusable(Unreachable),
}

impl Reader {
    /// The reader of a socket that does not block, with what was read from it before.
    pub(super) fn new(socket: Stream, heard: BytesMut) -> Self {
        let buffer = Vec::with_capacity(READ_SIZE);
        let fresh = !heard.is_empty();
        let (socket, watch, unusable) = (Arc::new(socket), None, None);
        let asked_to_register = false;
        Self { socket, heard, buffer, fresh, ends: false, watch, unusable, asked_to_register }
    }

    /// Waits until there is something to read, somebody writes to the wake pipe, or the deadline has passed.
    /// The end of the wake pipe must be the same in each call.
    pub(super) fn wait(&mut self, wake_end: &Stream, deadline: Option<Instant>) {
        if self.watch.is_none() {
            self.watch = Pair::new(&*self.socket, wake_end).ok();
        }
        match &self.watch {
            Some(watch) => {
                let told = watch.wait(left(deadline));
                if told.woken {
                    silence(wake_end);
                }
                self.ends |= told.ended;
            }
            None => _ = wait(Some(&self.socket), false, wake_end, deadline),
        }
    }

    pub(super) fn socket(&self) -> &Arc<Stream> {
        &self.socket
    }

    /// Reads what there is. Returns whether that was a message.
    pub(super) fn read_available(
        &mut self,
        mut handle_message: impl FnMut(FromDaemon),
    ) -> Result<bool, End> {
        let mut is_word = false;
        if let Some(why) = &self.unusable {
            return Err(End::Unusable(why.clone()));
        }
        self.fresh = false;
        self.buffer.clear();
        match read_into_spare(&self.socket, &mut self.buffer) {
            // Everything that was sent before the end has been read.
            Ok(0) => return Err(End::Closed),
            Ok(_) => {
                self.heard.extend_from_slice(&self.buffer);
                // There may be more to read, which the system does not report again.
                self.fresh = self.buffer.len() == self.buffer.capacity();
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => {}
                io::ErrorKind::Interrupted => self.fresh = true,
                _ => return Err(End::Closed),
            },
        }
        loop {
            match decode::<FromDaemon>(&mut self.heard) {
                Ok(Some(FromDaemon::Register)) => self.asked_to_register = true,
                Ok(Some(FromDaemon::Refused { reason })) => {
                    self.unusable =
                        Some(Unreachable::other(format!("the broker refuses: {reason}")));
                    return Ok(is_word);
                }
                Ok(Some(message)) => {
                    is_word = true;
                    handle_message(message);
                }
                Ok(None) => return Ok(is_word),
                Err(error) => {
                    // The next call returns this, because the messages before it count.
                    self.unusable = Some(not_understood(error));
                    return Ok(is_word);
                }
            }
        }
    }

    /// Whether the daemon has asked us to check our own file, since the last call of this function.
    pub(super) fn was_asked_to_register(&mut self) -> bool {
        mem::take(&mut self.asked_to_register)
    }

    /// Whether more can be read without a wait.
    pub(super) fn has_more(&self) -> bool {
        self.fresh || self.ends || self.unusable.is_some()
    }
}

fn not_understood(error: CodecError) -> Unreachable {
    let message = format!(
        "the broker has broken its protocol: {error}; end the broker with 'navlock daemon stop'"
    );
    Unreachable::new(UnreachableKind::Protocol, message).caused_by(error)
}

/// A pipe: a byte that is written to one end wakes the thread that polls the other end.
pub(super) struct WakePipe {
    wake: Stream,
    end: Stream,
}

impl WakePipe {
    pub(super) fn new() -> io::Result<Self> {
        let (wake, end) = Stream::pair()?;
        wake.set_nonblocking(true)?;
        end.set_nonblocking(true)?;
        Ok(Self { wake, end })
    }

    pub(super) fn wake(&self) {
        // If the pipe is full, the other end is readable already.
        let _ = (&self.wake).write(&[0]);
    }

    pub(super) fn end(&self) -> &Stream {
        &self.end
    }

    /// Both ends, to be held by different owners.
    pub(super) fn split(self) -> (Stream, Stream) {
        (self.wake, self.end)
    }
}

/// Sends as much as the socket takes. Returns whether that was all.
pub(super) fn send(socket: &Stream, bytes: &mut BytesMut) -> bool {
    while !bytes.is_empty() {
        match socket::send(socket, bytes) {
            Ok(sent) => bytes.advance(sent),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return false,
                // The connection has ended, which the maintainer notices as well. The next daemon is
                // sent claims instead of these messages.
                _ => bytes.clear(),
            },
        }
    }
    true
}

/// Waits until the socket (if it is given) can be read, a byte is in the wake pipe, or the deadline
/// has passed. If something is `left_over` to be sent, this also waits until the socket has room
/// for it. Empties the wake pipe, and returns whether a byte was in it.
pub(super) fn wait(
    socket: Option<&Stream>,
    left_over: bool,
    wake_end: &Stream,
    deadline: Option<Instant>,
) -> bool {
    let interest = if left_over { Interest::BOTH } else { Interest::READ };
    // Without a socket, the wake pipe takes both places, and both answers are the same.
    let socket =
        socket.map_or((wake_end.source(), Interest::READ), |socket| (socket.source(), interest));
    // On an error, such as an interruption, the caller checks by itself what has come.
    let came = wait::wait([(wake_end.source(), Interest::READ), socket], left(deadline));
    let is_woken = came.is_ok_and(|[wake_end, _]| wake_end.any());
    if is_woken {
        silence(wake_end);
    }
    is_woken
}

fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}

fn silence(mut wake_end: &Stream) {
    let _ = wake_end.read(&mut [0; 64]);
}

#[cfg(test)]
mod tests {
    use navlock_wire::encode;

    use super::*;

    #[test]
    fn an_end_that_comes_with_the_last_words_is_heard_after_them() {
        let (mut daemon, ours) = Stream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let wake_end = WakePipe::new().unwrap();
        let mut reader = Reader::new(ours, BytesMut::new());
        // The kernel is asked once before there is anything to read.
        reader.wait(wake_end.end(), Some(Instant::now()));
        let mut bytes = BytesMut::new();
        encode(&FromDaemon::Settled, &mut bytes).unwrap();
        daemon.write_all(&bytes).unwrap();
        drop(daemon);
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut heard = 0;
        let end = loop {
            if !reader.has_more() {
                reader.wait(wake_end.end(), Some(deadline));
                assert!(Instant::now() < deadline, "the end was not heard");
            }
            match reader.read_available(|_| heard += 1) {
                Ok(_) => {}
                Err(end) => break end,
            }
        };
        assert!(matches!(end, End::Closed));
        assert_eq!(heard, 1);
    }
}
