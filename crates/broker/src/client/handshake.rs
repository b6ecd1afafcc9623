//! How a connection begins.

use std::{fs::File, time::Duration};

use navlock_platform::{peer, socket::Stream};
use navlock_wire::{ClientKey, FileTask, FromDaemon, ToDaemon, VERSION};

use super::{connect_options::ConnectOptions, message_stream::MessageStream, reader::Reader};
use crate::{
    Place,
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
    let socket = if options.only_running || place.is_of_system() {
        connect_to_running(place, deadline)?
    } else {
        connect_or_start(place, options.program.as_deref(), deadline)?
    };
    check_peer(place, &socket)?;
    let (MessageStream { socket, heard, .. }, reach) = shake_hands(socket, deadline)?;
    if reach.is_none() && options.must_be_shared(place) {
        return Err(Reason::NotShared);
    }
    socket.set_nonblocking(true).map_err(|error| Reason::Io("connecting", error.into()))?;
    Ok(Welcomed { reader: Reader::new(socket, heard), reach })
}

/// Checks whose process is at the other end: ours, or at the place of the machine's broker, that broker's. The
/// modes of the directory and the socket ensure this already. Here the kernel is asked.
pub(super) fn check_peer(place: &Place, socket: &Stream) -> Result<(), Reason> {
    let peer =
        peer::of(socket).map_err(|error| Reason::Io("asking who serves it", error.into()))?;
    if place.is_trusted(peer.user) { Ok(()) } else { Err(Reason::OtherUser(peer.user)) }
}

/// Says hello and waits for the welcome. Returns the connection, and how far the locks are seen, if they are
/// seen beyond this machine.
pub(super) fn shake_hands(
    socket: Stream,
    deadline: Deadline,
) -> Result<(MessageStream, Option<String>), Reason> {
    // A timeout of zero would be refused.
    let answer = deadline.cap(ANSWER).max(Duration::from_millis(1));
    let mut stream = MessageStream::new(socket, answer)?;
    stream.say(&ToDaemon::Hello { oldest: VERSION, newest: VERSION })?;
    match stream.receive()? {
        FromDaemon::Welcome { version: VERSION, reach } => Ok((stream, reach)),
        _ => Err(Reason::NotNavlock(None)),
    }
}

/// Asks the machine's broker to do this with a file of a client, on a connection of its own. Returns the files that it
/// has given. Blocks.
///
/// # Errors
///
/// [`Reason::Refused`] if it does not do it, and others if it cannot be asked.
pub(crate) fn ask_for_file(
    place: &Place,
    client: ClientKey,
    task: FileTask,
) -> Result<Vec<File>, Reason> {
    let deadline = Deadline::after(ANSWER);
    let socket = connect_to_running(place, deadline)?;
    check_peer(place, &socket)?;
    let (mut stream, _) = shake_hands(socket, deadline)?;
    stream.say(&ToDaemon::File { client, task })?;
    match stream.receive_with_files()? {
        (FromDaemon::File { outcome: Ok(()) }, files) => Ok(files),
        (FromDaemon::File { outcome: Err(why) }, _) => Err(Reason::Refused(why)),
        _ => Err(Reason::NotNavlock(None)),
    }
}
