//! The thread that hears what the daemon says.

use std::{
    io::{ErrorKind, Read},
    net::Shutdown,
    os::unix::net::UnixStream,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Waker,
};

use bytes::BytesMut;
use navlock_core::Error;
use navlock_wire::{ClientCodec, CodecError};
use rustix::event::{PollFd, PollFlags, poll};
use tokio_util::codec::Decoder;

use super::connection::Shared;

/// How much is heard at once.
const MOUTHFUL: usize = 64 << 10;

/// The hearing end of a connection.
pub(super) struct Hearing {
    shared: Arc<Shared>,
    nudged: UnixStream,
    codec: ClientCodec,
    heard: BytesMut,
}

/// How the connection ended.
enum End {
    Closed,
    Nonsense(CodecError),
}

impl Hearing {
    pub(super) fn new(
        shared: Arc<Shared>,
        nudged: UnixStream,
        codec: ClientCodec,
        heard: BytesMut,
    ) -> Self {
        Self { shared, nudged, codec, heard }
    }

    /// Hears until the connection ends, and tells everybody.
    pub(super) fn run(mut self) {
        let Err(end) = self.hear_all();
        let why = match end {
            End::Closed => "has ended".to_owned(),
            End::Nonsense(error) => format!("makes no sense ({error})"),
        };
        let error = Error::Unreachable(format!(
            "the connection to the broker at {} {why}; connect again",
            self.shared.path.display()
        ));
        let wakers = self.shared.table().end(error);
        // Its owners may keep it for long; what is held by it ends for the daemon now as well.
        let _ = self.shared.socket.shutdown(Shutdown::Both);
        wake(wakers);
    }

    fn hear_all(&mut self) -> Result<std::convert::Infallible, End> {
        let mut bytes = vec![0; MOUTHFUL];
        loop {
            self.understand()?;
            self.wait()?;
            match (&self.shared.socket).read(&mut bytes) {
                Ok(0) => return Err(End::Closed),
                Ok(length) => self.heard.extend_from_slice(&bytes[..length]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::Interrupted => {}
                    _ => return Err(End::Closed),
                },
            }
        }
    }

    /// Waits until there is something to hear, and sends what was left in the meantime.
    fn wait(&mut self) -> Result<(), End> {
        let mut interest = PollFlags::IN;
        if !self.shared.send_left() {
            interest |= PollFlags::OUT;
        }
        let mut polled =
            [PollFd::new(&self.shared.socket, interest), PollFd::new(&self.nudged, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Err(End::Closed),
        }
        if !polled[1].revents().is_empty() {
            let _ = (&self.nudged).read(&mut [0; 64]);
        }
        Ok(())
    }

    /// Takes in all whole messages that have been heard, then wakes whom they concern.
    fn understand(&mut self) -> Result<(), End> {
        let mut wakers = Vec::new();
        let mut nonsense = None;
        let mut table = self.shared.table();
        loop {
            match self.codec.decode(&mut self.heard) {
                Ok(Some(message)) => table.take_in(message, &mut wakers),
                Ok(None) => break,
                Err(error) => {
                    nonsense = Some(End::Nonsense(error));
                    break;
                }
            }
        }
        drop(table);
        wake(wakers);
        nonsense.map_or(Ok(()), Err)
    }
}

pub(super) fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        // Foreign code: its panic must not be the end of all the others' locks.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}
