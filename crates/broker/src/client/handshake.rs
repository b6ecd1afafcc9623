//! How a connection begins.

use std::{
    io::{self, ErrorKind, Read},
    time::Duration,
};

use bytes::BytesMut;
use navlock_platform::{peer, socket::Stream, user::ours};
use navlock_wire::{ClientCodec, FromDaemon, Sent, ToDaemon, VERSION};
use tokio_util::codec::{Decoder, Encoder};

use super::{
    connect_options::ConnectOptions,
    reader::{Reader, send},
};
use crate::{
    Place, clock,
    connect_error::Reason,
    deadline::Deadline,
    spawn::{ANSWER, connect_or_start, connect_to_running, stopped_broker},
};

/// How often the client tries to connect if each daemon has gone before it has answered. A daemon
/// may have just ended because it was idle, or may have been killed.
const TRIES: usize = 5;

/// A connection to a daemon that has welcomed us.
pub(super) struct Welcomed {
    pub(super) reader: Reader,
    /// How far the daemon's locks are seen, if they are seen beyond this machine.
    pub(super) reach: Option<String>,
}

/// Connects and agrees on a version. Blocks.
pub(super) fn connect(
    place: &Place,
    options: &ConnectOptions,
    deadline: Deadline,
) -> Result<Welcomed, Reason> {
    let mut tries = 1;
    loop {
        match try_connect(place, options, deadline) {
            Err(Reason::Vanished) if tries < TRIES => tries += 1,
            // The daemon could not start. The obstacle may be gone by now, such as another daemon
            // that was killed.
            Err(Reason::Failed(_)) if tries == 1 => tries += 1,
            Err(Reason::Silent(time)) => {
                return Err(stopped_broker(place).map_or(Reason::Silent(time), Reason::Stopped));
            }
            connected => return connected,
        }
    }
}

fn try_connect(
    place: &Place,
    options: &ConnectOptions,
    deadline: Deadline,
) -> Result<Welcomed, Reason> {
    let mut socket = if options.only_running {
        connect_to_running(place, deadline)?
    } else {
        connect_or_start(place, options.program.as_deref(), deadline)?
    };
    check_peer(&socket)?;
    let mut codec = ClientCodec::default();
    let mut heard = BytesMut::new();
    let reach = shake_hands(&mut socket, &mut codec, &mut heard, deadline)?;
    if reach.is_none() && options.must_be_shared() {
        return Err(Reason::NotShared);
    }
    socket.set_nonblocking(true).map_err(|error| Reason::Io("connecting", error.into()))?;
    Ok(Welcomed { reader: Reader::new(socket, codec, heard), reach })
}

/// Checks that the process at the other end has our uid. The modes of the directory and the socket
/// ensure this already. Here the kernel is asked.
pub(super) fn check_peer(socket: &Stream) -> Result<(), Reason> {
    let peer =
        peer::of(socket).map_err(|error| Reason::Io("asking who serves it", error.into()))?;
    if peer.user == ours() { Ok(()) } else { Err(Reason::OtherUser(peer.user)) }
}

/// Says hello and waits for the welcome. Bytes that were read beyond the welcome stay in `heard`.
/// Returns how far the locks are seen, if they are seen beyond this machine.
pub(super) fn shake_hands(
    socket: &mut Stream,
    codec: &mut ClientCodec,
    heard: &mut BytesMut,
    deadline: Deadline,
) -> Result<Option<String>, Reason> {
    // A timeout of zero would be refused.
    let answer = deadline.cap(ANSWER).max(Duration::from_millis(1));
    let ended = |error: io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Reason::Silent(answer),
        // Some systems answer "invalid" if a timeout is set when the other end is closed already.
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::InvalidInput => {
            Reason::Vanished
        }
        _ => Reason::Io("saying hello", error.into()),
    };
    socket.set_read_timeout(Some(answer)).map_err(ended)?;
    say(socket, &ToDaemon::Hello { oldest: VERSION, newest: VERSION }, answer)?;
    let mut bytes = [0; 512];
    let reach = loop {
        match codec.decode(heard).map_err(|error| Reason::NotNavlock(Some(error)))? {
            Some(FromDaemon::Welcome { version: VERSION, reach }) => break reach,
            Some(FromDaemon::Refused { reason }) => return Err(Reason::Refused(reason)),
            Some(_) => return Err(Reason::NotNavlock(None)),
            None => match socket.read(&mut bytes) {
                Ok(0) => return Err(Reason::Vanished),
                Ok(length) => heard.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ended(error)),
            },
        }
    };
    socket.set_read_timeout(None).map_err(ended)?;
    Ok(reach)
}

/// Sends a message, as a whole. Blocks. A message that cannot be encoded is not sent, and the connection
/// is as good as before. `timeout` is the time that the error names if the daemon does not read.
pub(super) fn say(socket: &Stream, message: &ToDaemon, timeout: Duration) -> Result<(), Reason> {
    let mut bytes = BytesMut::new();
    let sent = Sent { at: clock::now(), message };
    ClientCodec::default().encode(sent, &mut bytes).map_err(Reason::NotEncoded)?;
    if send(socket, &mut bytes) { Ok(()) } else { Err(Reason::Silent(timeout)) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use navlock_wire::{CodecError, DaemonCodec, MAX_FRAME};

    use super::*;

    #[test]
    fn a_message_that_cannot_be_encoded_is_not_sent_and_the_next_one_is() {
        let (ours, mut theirs) = Stream::pair().unwrap();
        let log = |length: usize| ToDaemon::Log { query: 0, filter: "x".repeat(length) };
        let second = Duration::from_secs(1);
        let failed = say(&ours, &log(MAX_FRAME), second);
        assert_eq!(failed, Err(Reason::NotEncoded(CodecError::TooLong)));
        assert_eq!(say(&ours, &log(1), second), Ok(()));
        drop(ours);
        let mut sent = Vec::new();
        theirs.read_to_end(&mut sent).unwrap();
        let mut sent = BytesMut::from(&sent[..]);
        let heard = DaemonCodec::default().decode(&mut sent).unwrap();
        assert_eq!(heard.map(|sent| sent.message), Some(log(1)));
        assert!(sent.is_empty());
    }

    #[test]
    fn an_answer_that_is_no_frame_is_the_cause_of_the_error() {
        let (mut ours, mut theirs) = Stream::pair().unwrap();
        theirs.write_all(b"HTTP/1.1 400 Bad Request").unwrap();
        let deadline = Deadline::after(Duration::from_secs(60));
        let (mut codec, mut heard) = (ClientCodec::default(), BytesMut::new());
        let shaken = shake_hands(&mut ours, &mut codec, &mut heard, deadline);
        assert_eq!(shaken, Err(Reason::NotNavlock(Some(CodecError::TooLong))));
    }
}
