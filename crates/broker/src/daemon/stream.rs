//! A connection before it is a session's: a task reads its messages, and answers them.

use std::io::{self, ErrorKind};

use bytes::{Buf, BytesMut};
use navlock_platform::socket;
use navlock_wire::{CodecError, FromDaemon, Sent, ToDaemon, decode, encode};

use super::{awaited::Socket, session_ends::End, tasks::yield_now};

/// How much is read at once.
const READ_SIZE: usize = 8 << 10;

/// The connection, and what was read from it.
pub(super) struct Stream {
    pub(super) socket: Socket,
    pub(super) heard: BytesMut,
}

impl Stream {
    /// # Errors
    ///
    /// If there is no memory left.
    pub(super) fn new(stream: socket::Stream) -> io::Result<Self> {
        Ok(Self { socket: Socket::new(stream)?, heard: BytesMut::new() })
    }

    /// The next message.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing is lost.
    pub(super) async fn next(&mut self) -> Result<ToDaemon, End> {
        loop {
            if let Some(sent) = decode::<Sent>(&mut self.heard)? {
                return Ok(sent.message);
            }
            match self.hear() {
                Ok(0) if self.heard.is_empty() => return Err(End::Gone),
                Ok(0) => return Err(CodecError::Truncated.into()),
                // Nobody keeps others waiting by saying more and more.
                Ok(_) => yield_now().await,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.socket.news().await,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn hear(&mut self) -> io::Result<usize> {
        let mut buffer = [0; READ_SIZE];
        let (read, _) = self.socket.member().read(&mut buffer)?;
        self.heard.extend_from_slice(&buffer[..read]);
        Ok(read)
    }

    /// Sends a message, and waits until it is sent.
    pub(super) async fn send(&mut self, message: &FromDaemon) -> Result<(), End> {
        let mut bytes = BytesMut::new();
        encode(message, &mut bytes)?;
        send(&self.socket, &mut bytes).await
    }
}

/// Waits until these bytes are sent, or the other end has gone.
pub(super) async fn send(socket: &Socket, bytes: &mut BytesMut) -> Result<(), End> {
    while !bytes.is_empty() {
        let sent = socket.when_room(|member| member.write(bytes)).await?;
        bytes.advance(sent);
    }
    Ok(())
}
