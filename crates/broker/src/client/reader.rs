//! Waiting for a daemon, and hearing it.

use std::{
    io::{self, Read, Write},
    mem,
    sync::Arc,
    task::Waker,
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};
pub(super) use navlock_core::host::wake_all as wake;
use navlock_platform::{
    socket::{self, Stream, read_into_spare},
    wait::{self, Interest, Pair, Source},
};
use navlock_wire::{ClientCodec, CodecError, FromDaemon};
use tokio_util::codec::Decoder;

/// How much is heard at once.
const READ_SIZE: usize = 16 << 10;

/// The hearing end of a connection.
pub(super) struct Reader {
    socket: Arc<Stream>,
    codec: ClientCodec,
    heard: BytesMut,
    /// FAST: mostly little is heard. Memory that was not written to yet is none.
    buffer: Vec<u8>,
    /// Something was heard that is not understood yet.
    fresh: bool,
    /// There is an end to be heard, of which nobody is told again.
    ends: bool,
    /// For a thread that waits for its own answer.
    watch: Option<Pair>,
    /// What was heard makes no sense, and so does what follows.
    nonsense: Option<String>,
    /// Our file is to be looked after.
    asked_to_register: bool,
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    Closed,
    Nonsense(String),
}

impl Reader {
    /// That of a socket that does not block, with what was heard of it already.
    pub(super) fn new(socket: Stream, codec: ClientCodec, heard: BytesMut) -> Self {
        let buffer = Vec::with_capacity(READ_SIZE);
        let fresh = !heard.is_empty();
        let (socket, watch, nonsense) = (Arc::new(socket), None, None);
        let asked_to_register = false;
        Self {
            socket,
            codec,
            heard,
            buffer,
            fresh,
            ends: false,
            watch,
            nonsense,
            asked_to_register,
        }
    }

    /// Waits until there is something to hear, or somebody writes to the wake pipe, whose end is always the same; or until
    /// the deadline.
    pub(super) fn wait(&mut self, wake_end: &Stream, deadline: Option<Instant>) {
        if self.watch.is_none() {
            self.watch = Pair::new(&*self.socket, wake_end).ok();
        }
        match &self.watch {
            Some(watch) => {
                let told = watch.wait(left(deadline));
                if told.rang {
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

    /// Hears what there is. Whom to wake for it.
    pub(super) fn hear(
        &mut self,
        mut handle_message: impl FnMut(FromDaemon, &mut Vec<Waker>),
    ) -> Result<Vec<Waker>, End> {
        let mut wakers = Vec::new();
        if let Some(nonsense) = &self.nonsense {
            return Err(End::Nonsense(nonsense.clone()));
        }
        self.fresh = false;
        self.buffer.clear();
        match read_into_spare(&self.socket, &mut self.buffer) {
            // Said before it ended, and heard before that is told.
            Ok(0) => return Err(End::Closed),
            Ok(_) => {
                self.heard.extend_from_slice(&self.buffer);
                // There may be more, of which nobody is told again.
                self.fresh = self.buffer.len() == self.buffer.capacity();
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => {}
                io::ErrorKind::Interrupted => self.fresh = true,
                _ => return Err(End::Closed),
            },
        }
        loop {
            match self.codec.decode(&mut self.heard) {
                Ok(Some(FromDaemon::Register)) => self.asked_to_register = true,
                Ok(Some(FromDaemon::Refused { reason })) => {
                    self.nonsense = Some(format!("the broker refuses: {reason}"));
                    return Ok(wakers);
                }
                Ok(Some(message)) => handle_message(message, &mut wakers),
                Ok(None) => return Ok(wakers),
                Err(error) => {
                    // Told next time: what was understood until here counts.
                    self.nonsense = Some(nonsense(&error));
                    return Ok(wakers);
                }
            }
        }
    }

    /// Whether the daemon has asked for our file to be looked after, since this was asked last.
    pub(super) fn was_asked_to_register(&mut self) -> bool {
        mem::take(&mut self.asked_to_register)
    }

    /// Whether there is no need to wait before hearing more.
    pub(super) fn has_more(&self) -> bool {
        self.fresh || self.ends || self.nonsense.is_some()
    }
}

fn nonsense(error: &CodecError) -> String {
    format!("makes no sense ({error})")
}

/// Two ends, one of which is written to so that whoever polls the other wakes up.
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
        // Full is as good.
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

/// Sends as much as the socket takes. Whether that was all.
pub(super) fn send(socket: &Stream, bytes: &mut BytesMut) -> bool {
    while !bytes.is_empty() {
        match socket::send(socket, bytes) {
            Ok(sent) => bytes.advance(sent),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return false,
                // The connection has ended, which the maintainer sees as well. What was not sent is said
                // to the next daemon in other words.
                _ => bytes.clear(),
            },
        }
    }
    true
}

/// Waits until one of these has something: the socket, if it is to be heard (`Some`), or room for
/// what is `left_over` to be sent, or the end of a wake pipe, which is emptied. Or until the deadline. Whether the
/// wake pipe had something.
pub(super) fn wait(
    socket: Option<&Stream>,
    left_over: bool,
    wake_end: &Stream,
    deadline: Option<Instant>,
) -> bool {
    let interest = if left_over { Interest::BOTH } else { Interest::READ };
    // One that is asked for twice has something twice.
    let socket =
        socket.map_or((wake_end.source(), Interest::READ), |socket| (socket.source(), interest));
    // Interrupted, or nothing to wait for: whoever waits looks for itself.
    let came = wait::wait([(wake_end.source(), Interest::READ), socket], left(deadline));
    let rang = came.is_ok_and(|[wake_end, _]| wake_end.any());
    if rang {
        silence(wake_end);
    }
    rang
}

fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}

fn silence(mut wake_end: &Stream) {
    let _ = wake_end.read(&mut [0; 64]);
}

#[cfg(test)]
mod tests {
    use navlock_wire::DaemonCodec;
    use tokio_util::codec::Encoder;

    use super::*;

    #[test]
    fn an_end_that_comes_with_the_last_words_is_heard_after_them() {
        let (mut daemon, ours) = Stream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let wake_end = WakePipe::new().unwrap();
        let mut reader = Reader::new(ours, ClientCodec::default(), BytesMut::new());
        // The kernel is asked once before there is anything.
        reader.wait(wake_end.end(), Some(Instant::now()));
        let mut bytes = BytesMut::new();
        DaemonCodec::default().encode(&FromDaemon::Settled, &mut bytes).unwrap();
        daemon.write_all(&bytes).unwrap();
        drop(daemon);
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut heard = 0;
        let end = loop {
            if !reader.has_more() {
                reader.wait(wake_end.end(), Some(deadline));
                assert!(Instant::now() < deadline, "the end was not heard");
            }
            match reader.hear(|_, _| heard += 1) {
                Ok(_) => {}
                Err(end) => break end,
            }
        };
        assert!(matches!(end, End::Closed));
        assert_eq!(heard, 1);
    }
}
