//! The lines that a daemon's program writes while it starts, and the client that reads them.

use std::{
    io::{ErrorKind, Read},
    time::{Duration, Instant},
};

use navlock_platform::socket::Stream;

use crate::connect_error::Reason;

/// The line that the daemon's program writes when it has begun to listen. The client that starts
/// the program waits for this line. If the program ends without this line, the client reports
/// whatever else the program has written as the reason why the daemon did not start.
pub const READY_LINE: &str = "ready";

/// The beginning of a line that the daemon's program writes before [`READY_LINE`], if it waits for
/// the service that keeps its locks. The rest of the line names the service. If a client has read
/// this line and the daemon has not begun to listen, the client does not start a second daemon at
/// once.
pub const WAITS_FOR: &str = "waits for ";

/// Waits until the daemon has written that it listens. An error says what the daemon has written
/// instead, or that time is over.
pub(super) fn wait_until_ready(said: &mut Stream, timeout: Duration) -> Result<(), Reason> {
    const ENOUGH: usize = 4096;
    let deadline = Instant::now() + timeout;
    let mut text = Vec::new();
    let mut bytes = [0; 512];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(match waited_for(&text).0 {
                Some(what) => Reason::Waits(timeout, what),
                None => Reason::NotReady(timeout),
            });
        }
        // Some systems refuse to set a timeout when the other end is closed. In this case, there is
        // nothing to wait for.
        let _ = said.set_read_timeout(Some(left));
        match said.read(&mut bytes) {
            Ok(0) => {
                let (what, text) = waited_for(&text);
                // The code that shows this message puts the name of the program before the message.
                let text = text.strip_prefix("navlock: ").unwrap_or(&text);
                return Err(match (text, what) {
                    // The daemon has written nothing: it was killed.
                    ("", _) => Reason::Vanished,
                    (text, None) => Reason::Failed(text.to_owned()),
                    (text, Some(_)) => Reason::NotReached(text.to_owned()),
                });
            }
            Ok(length) if text.len() < ENOUGH => text.extend_from_slice(&bytes[..length]),
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                _ => return Err(Reason::Io("waiting for it to start", error.into())),
            },
        }
        if text.split(|&byte| byte == b'\n').any(|line| line == READY_LINE.as_bytes()) {
            return Ok(());
        }
    }
}

/// What a daemon waits for, if it has written that, and the rest of what it has written.
fn waited_for(text: &[u8]) -> (Option<String>, String) {
    let text = String::from_utf8_lossy(text);
    let (mut what, mut rest) = (None, Vec::new());
    for line in text.lines() {
        match line.strip_prefix(WAITS_FOR) {
            Some(said) => what = Some(said.to_owned()),
            None => rest.push(line),
        }
    }
    (what, rest.join("\n").trim().to_owned())
}
