//! A connection on which one thread says something, and waits for what it is answered.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    time::Duration,
};

use bytes::BytesMut;
use navlock_platform::socket::{Stream, receive_with_files};
use navlock_wire::{FromDaemon, Sent, ToDaemon, decode, encode};

use super::reader::send;
use crate::{clock, connect_error::Reason};

/// How many bytes are read at once.
const READ_SIZE: usize = 16 << 10;

/// A connection that one thread has for itself.
#[derive(Debug)]
pub(super) struct MessageStream {
    pub(super) socket: Stream,
    /// What was read and is not decoded yet.
    pub(super) heard: BytesMut,
    /// How long the daemon may take to answer. The errors name it.
    patience: Duration,
}

impl MessageStream {
    /// A connection whose daemon may take this long to answer. A time of zero would be refused.
    pub(super) fn new(socket: Stream, patience: Duration) -> Result<Self, Reason> {
        let mut stream = Self { socket, heard: BytesMut::new(), patience };
        stream.set_patience(patience)?;
        Ok(stream)
    }

    pub(super) fn set_patience(&mut self, patience: Duration) -> Result<(), Reason> {
        self.patience = patience;
        self.socket.set_read_timeout(Some(patience)).map_err(|error| self.ended(error))
    }

    /// Sends a message, as a whole. Blocks. A message that cannot be encoded is not sent, and the connection
    /// is as good as before.
    pub(super) fn say(&self, message: &ToDaemon) -> Result<(), Reason> {
        let mut bytes = BytesMut::new();
        let sent = Sent { at: clock::now(), message };
        encode(&sent, &mut bytes).map_err(Reason::NotEncoded)?;
        if send(&self.socket, &mut bytes) { Ok(()) } else { Err(Reason::Silent(self.patience)) }
    }

    /// The next message. Blocks.
    pub(super) fn receive(&mut self) -> Result<FromDaemon, Reason> {
        loop {
            if let Some(message) = self.next_heard()? {
                return Ok(message);
            }
            self.read()?;
        }
    }

    /// The next message, with the files that come with it. Blocks.
    pub(super) fn receive_with_files(&mut self) -> Result<(FromDaemon, Vec<File>), Reason> {
        let mut files = Vec::new();
        loop {
            if let Some(message) = self.next_heard()? {
                return Ok((message, files));
            }
            let mut bytes = [0; READ_SIZE];
            let read = receive_with_files(&self.socket, &mut bytes, &mut files);
            self.take_in(read, &bytes)?;
        }
    }

    /// The next of the messages that were read.
    pub(super) fn next_heard(&mut self) -> Result<Option<FromDaemon>, Reason> {
        match decode::<FromDaemon>(&mut self.heard) {
            Ok(Some(FromDaemon::Refused { reason })) => Err(Reason::Refused(reason)),
            Ok(message) => Ok(message),
            Err(error) => Err(Reason::NotNavlock(Some(error))),
        }
    }

    /// Reads what there is. Blocks if the socket does.
    pub(super) fn read(&mut self) -> Result<(), Reason> {
        let mut bytes = [0; READ_SIZE];
        let read = self.socket.read(&mut bytes);
        self.take_in(read, &bytes)
    }

    fn take_in(&mut self, read: io::Result<usize>, bytes: &[u8]) -> Result<(), Reason> {
        match read {
            Ok(0) => return Err(Reason::Vanished),
            Ok(length) => self.heard.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(self.ended(error)),
        }
        Ok(())
    }

    fn ended(&self, error: io::Error) -> Reason {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Reason::Silent(self.patience),
            // Some systems answer "invalid" if a timeout is set when the other end is closed already.
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::InvalidInput => {
                Reason::Vanished
            }
            _ => Reason::Io("waiting for its answer", error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use navlock_wire::{CodecError, MAX_FRAME};

    use super::*;

    #[test]
    fn a_message_that_cannot_be_encoded_is_not_sent_and_the_next_one_is() {
        let (ours, mut theirs) = Stream::pair().unwrap();
        let ours = MessageStream::new(ours, Duration::from_secs(1)).unwrap();
        let log = |length: usize| ToDaemon::Log { query: 0, filter: "x".repeat(length) };
        let failed = ours.say(&log(MAX_FRAME));
        assert_eq!(failed, Err(Reason::NotEncoded(CodecError::TooLong)));
        assert_eq!(ours.say(&log(1)), Ok(()));
        drop(ours);
        let mut sent = Vec::new();
        theirs.read_to_end(&mut sent).unwrap();
        let mut sent = BytesMut::from(&sent[..]);
        let heard = decode::<Sent>(&mut sent).unwrap();
        assert_eq!(heard.map(|sent| sent.message), Some(log(1)));
        assert!(sent.is_empty());
    }

    #[test]
    fn an_answer_that_is_no_frame_is_the_cause_of_the_error() {
        let (ours, mut theirs) = Stream::pair().unwrap();
        theirs.write_all(b"HTTP/1.1 400 Bad Request").unwrap();
        let mut ours = MessageStream::new(ours, Duration::from_secs(60)).unwrap();
        let heard = ours.receive();
        assert_eq!(heard, Err(Reason::NotNavlock(Some(CodecError::TooLong))));
    }
}
