//! Events, which tell lookers what happens.

use std::{
    mem,
    time::{Duration, Instant},
};

use super::{Agent, Client, Entry, LockId, LockName, Silence};
use crate::{ClientId, Lost};

/// Something that has happened.
///
/// Messages between processes have times of another type, because an [`Instant`] means something in its own
/// process only.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Event<At = Instant> {
    /// When it happened, or since when it is so.
    pub at: At,
    /// What happened.
    pub change: Change,
}

/// How many bytes an event counts for, besides its texts. It takes about as many.
pub(super) const OVERHEAD: usize = 128;

impl<At> Event<At> {
    /// About how many bytes the event takes in a message, which has the name of the bucket in each event, and at
    /// most in memory: for a host that keeps events, or sends them.
    #[doc(hidden)]
    pub fn size(&self) -> usize {
        let name = self.change.name();
        let name = name.map_or(0, |name| name.bucket.len() + name.name.as_bytes().len());
        let more = match &self.change {
            Change::AgentCame { details, .. } => details.bucket.len() + details.info.size(),
            Change::Requested { entry, .. }
            | Change::Granted { entry, .. }
            | Change::Owned { entry, .. } => {
                let why = entry.why.as_ref().map_or(0, |why| why.len());
                why + mem::size_of_val(&*entry.inside)
            }
            _ => 0,
        };
        OVERHEAD + name + more
    }
}

/// What has happened.
///
/// Each change tells everything about its subject, so it does no harm to hear of it late or twice.
///
/// Some questions can be asked of all changes, as for a line of a log:
///
/// ```
/// use navlock::{ClientId, look::{Change, LockId, LockName}};
///
/// fn line(change: &Change) -> String {
///     let name = change.name().map_or_else(String::new, |name| format!(" {:?}", name.name));
///     let agent = change.agent().map_or_else(String::new, |agent| format!(" by {agent}"));
///     format!("{}{name}{agent}", change.word())
/// }
///
/// let id = LockId { client_id: ClientId::from_bytes([0; 16]), serial: 1 };
/// let name = LockName::new("app", "db".try_into()?);
/// let line = line(&Change::Released { name, id });
/// assert_eq!(line, r#"released "db" by 00000000-0000-0000-0000-000000000000"#);
/// # Ok::<(), navlock::ReservedName>(())
/// ```
///
/// In the form that serde writes, a change has no times. The reader [sets](Self::set_time) the time of the
/// event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Change {
    /// A process has connected, or more is known of it than before.
    ClientCame {
        /// The number of its connection.
        client: u64,
        /// What is known of it.
        details: Client,
    },
    /// A connection has ended, and with it all locks that other processes have not inherited.
    ClientWent {
        /// The number of the connection.
        client: u64,
    },
    /// An agent is there, or has said more of itself.
    AgentCame {
        /// Its client id.
        agent: ClientId,
        /// What the agent says of itself, and its client.
        details: Agent,
    },
    /// The service that keeps the locks should have heard of an agent's machine, and has not.
    AgentSilent {
        /// Its client id.
        agent: ClientId,
        /// Since when nothing was heard, and when the agent's locks end because of that.
        silence: Silence,
    },
    /// An agent has ended, with all that it held and waited for.
    AgentWent {
        /// Its client id.
        agent: ClientId,
    },
    /// A request was made, and waits at the end of its queue.
    Requested {
        /// The name that was asked for.
        name: LockName,
        /// The request.
        entry: Entry,
    },
    /// A lock is held from now on. It was granted at once, or to a request that waited.
    Granted {
        /// The name of the lock.
        name: LockName,
        /// The lock.
        entry: Entry,
    },
    /// A lock could not be had at once, and only that was asked for.
    Unavailable {
        /// The name of the lock.
        name: LockName,
        /// The agent that asked.
        agent: ClientId,
    },
    /// A lock was released.
    Released {
        /// The name of the lock.
        name: LockName,
        /// The id of the lock or request.
        id: LockId,
    },
    /// A request has left its queue without the lock: it was aborted, its time was over, or it failed.
    Aborted {
        /// The name that was asked for.
        name: LockName,
        /// The id of the lock or request.
        id: LockId,
    },
    /// A lock has ended against its holder's will.
    Lost {
        /// The name of the lock.
        name: LockName,
        /// The id of the lock or request.
        id: LockId,
        /// How it ended. [`Lost::Stolen`] if it was stolen.
        how: Lost,
        /// Who has stolen it, if that is known.
        by: Option<ClientId>,
    },
    /// The state in which an owned name was seen: a name that its owner takes and releases without
    /// asking. Between two such events the name may have been taken any number of times, which
    /// [`Entry::taken`] counts.
    Owned {
        /// The name.
        name: LockName,
        /// The entry of the lock by which the client got the name, with the token of the hold that
        /// was seen.
        entry: Entry,
        /// Whether the name was held when it was seen.
        held: bool,
    },
    /// A name has lost its owner, and nobody held it.
    Recalled {
        /// The name.
        name: LockName,
        /// The lock by which the client had the name.
        id: LockId,
    },
    /// A broker has taken over from another one, and grants requests from now on.
    Recovered,
    /// A part of a picture, which says that the picture leaves out locks and requests of other
    /// machines.
    LeftOut {
        /// How many locks and requests are left out at most.
        count: u64,
    },
}

impl Change {
    /// The name that the change is about, if it is about one.
    pub fn name(&self) -> Option<&LockName> {
        match self {
            Self::Requested { name, .. }
            | Self::Granted { name, .. }
            | Self::Unavailable { name, .. }
            | Self::Released { name, .. }
            | Self::Aborted { name, .. }
            | Self::Lost { name, .. }
            | Self::Owned { name, .. }
            | Self::Recalled { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The bucket that the change is about, if the change says so.
    pub fn bucket(&self) -> Option<&str> {
        match self {
            Self::AgentCame { details, .. } => Some(&details.bucket),
            _ => self.name().map(|name| &*name.bucket),
        }
    }

    /// Says that what the change tells is so since this moment.
    pub fn set_time(&mut self, at: Instant) {
        match self {
            Self::ClientCame { details, .. } => details.since = at,
            Self::AgentSilent { silence, .. } => {
                *silence = Silence::new(at, at + Duration::from(*silence));
            }
            Self::Requested { entry, .. }
            | Self::Granted { entry, .. }
            | Self::Owned { entry, .. } => entry.since = at,
            _ => {}
        }
    }

    /// The agent that the change is about, if it is about one.
    pub fn agent(&self) -> Option<ClientId> {
        match self {
            Self::AgentCame { agent, .. }
            | Self::AgentSilent { agent, .. }
            | Self::AgentWent { agent }
            | Self::Unavailable { agent, .. } => Some(*agent),
            Self::Requested { entry, .. }
            | Self::Granted { entry, .. }
            | Self::Owned { entry, .. } => Some(entry.id.client_id),
            Self::Released { id, .. }
            | Self::Aborted { id, .. }
            | Self::Lost { id, .. }
            | Self::Recalled { id, .. } => Some(id.client_id),
            _ => None,
        }
    }

    /// What has happened, in one word: the same in all that navlock prints.
    pub fn word(&self) -> &'static str {
        match self {
            Self::ClientCame { .. } => "client-came",
            Self::ClientWent { .. } => "client-went",
            Self::AgentCame { .. } => "agent-came",
            Self::AgentSilent { .. } => "agent-silent",
            Self::AgentWent { .. } => "agent-went",
            Self::Requested { .. } => "requested",
            Self::Granted { .. } => "granted",
            Self::Unavailable { .. } => "unavailable",
            Self::Released { .. } => "released",
            Self::Aborted { .. } => "aborted",
            Self::Lost { how: Lost::Stolen, .. } => "stolen",
            Self::Lost { .. } => "lost",
            Self::Owned { .. } => "owned",
            Self::Recalled { .. } => "recalled",
            Self::Recovered => "recovered",
            Self::LeftOut { .. } => "left-out",
        }
    }
}
