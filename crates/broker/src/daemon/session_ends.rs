//! Why sessions ended. Each end is logged, and the last ends are kept for the daemon's report.

use std::{
    cmp::Reverse,
    collections::VecDeque,
    fmt,
    io::{self, ErrorKind},
    time::{Duration, Instant, SystemTime},
};

use navlock_wire::{CodecError, SessionEnd};

use crate::LOGS;

/// How many usual ends are kept, and how many unusual ones, so that the usual ends do not push out
/// the others.
const KEPT: usize = 8;

/// How many unusual ends are logged in a second. Whoever may connect can make many.
const LOGGED: u64 = 16;

/// What a client did against the protocol: it sent a message that no client sends, or a message that has
/// no place at that point.
#[derive(Debug)]
pub(super) struct ProtocolError(pub(super) &'static str);

/// Why a session ends.
#[derive(Debug)]
pub(super) enum End {
    /// The client is gone.
    Gone,
    /// The client's process has ended.
    Died,
    /// The daemon ends, and the client goes on with the next one.
    Left,
    /// The client has broken the protocol.
    ProtocolError(ProtocolError),
    /// The client speaks another version of the protocol, or there is no room for it. The client was
    /// told this.
    Refused,
    /// The client has not introduced itself in time.
    Late,
    /// The client does not read what it is told.
    Deaf,
    /// The session has panicked.
    Panicked,
    /// The connection carried no messages.
    Malformed(CodecError),
    /// The connection failed.
    Io(io::Error),
}

/// The last ends.
#[derive(Debug, Default)]
pub(super) struct Ends {
    usual: VecDeque<SessionEnd>,
    unusual: VecDeque<SessionEnd>,
    /// How many unusual ends there were, and how many there were a second ago.
    bad: u64,
    before: (Option<Instant>, u64),
}

impl End {
    /// Whether sessions usually end like this, with nothing wrong.
    pub(super) fn is_usual(&self) -> bool {
        matches!(self, Self::Gone | Self::Died | Self::Left)
    }
}

impl Ends {
    /// Notes the end of a session, and logs it.
    pub(super) fn note(&mut self, pid: Option<u32>, end: &End) {
        let kept = if end.is_usual() {
            tracing::debug!(target: LOGS, pid, "a session ended: {end}");
            &mut self.usual
        } else {
            self.bad += 1;
            self.warn(pid, end);
            &mut self.unusual
        };
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(SessionEnd { at: SystemTime::now(), pid, why: end.to_string() });
    }

    fn warn(&mut self, pid: Option<u32>, end: &End) {
        let (since, before) = self.before;
        if since.is_none_or(|since| since.elapsed() >= Duration::from_secs(1)) {
            let unlogged = (self.bad - 1 - before).saturating_sub(LOGGED);
            if unlogged > 0 {
                tracing::warn!(target: LOGS, unlogged, "more sessions ended in an unusual way");
            }
            self.before = (Some(Instant::now()), self.bad - 1);
        }
        if self.bad - self.before.1 <= LOGGED {
            tracing::warn!(target: LOGS, pid, "a session ended: {end}");
        }
    }

    /// How many sessions ended in an unusual way.
    pub(super) fn bad(&self) -> u64 {
        self.bad
    }

    /// The ends that are kept, the last one first.
    pub(super) fn last(&self) -> Vec<SessionEnd> {
        let mut ends: Vec<_> = self.usual.iter().chain(&self.unusual).cloned().collect();
        ends.sort_by_key(|end| Reverse(end.at));
        ends
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the client has closed its connection"),
            Self::Died => f.write_str("the client's process has ended"),
            Self::Left => f.write_str("the broker ends, and leaves all as it is for the next one"),
            Self::ProtocolError(ProtocolError(why)) => {
                write!(f, "the client broke the protocol: {why}")
            }
            Self::Refused => f.write_str("the client was refused, and told why"),
            Self::Late => f.write_str("the client did not introduce itself in time"),
            Self::Deaf => f.write_str("the client does not read what it is told"),
            Self::Panicked => f.write_str("the broker has a fault; see its log"),
            Self::Malformed(error) => write!(f, "the connection failed: {error}"),
            Self::Io(error) => write!(f, "the connection failed: {error}"),
        }
    }
}

impl From<CodecError> for End {
    fn from(error: CodecError) -> Self {
        Self::Malformed(error)
    }
}

impl From<io::Error> for End {
    /// A client that ends before it has read all that was sent to it resets its connection. So a reset
    /// means that the client is gone, and not that something has failed.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::Gone,
            _ => Self::Io(error),
        }
    }
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> Self {
        Self::ProtocolError(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_ends_of_sessions_do_not_push_out_an_unusual_end() {
        let mut ends = Ends::default();
        ends.note(Some(1), &End::ProtocolError(ProtocolError("it did not begin with Hello")));
        for pid in 2..100 {
            ends.note(Some(pid), &End::Gone);
        }
        let last = ends.last();
        assert_eq!(last.len(), KEPT + 1);
        assert_eq!((last[0].pid, last[KEPT].pid), (Some(99), Some(1)));
        assert!(last[KEPT].why.contains("it did not begin with Hello"));
    }
}
