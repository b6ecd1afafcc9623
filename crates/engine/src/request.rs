//! Lock requests, and the locks that they become.

use std::fmt;

use crate::{
    Mode,
    links::{AgentIndex, Links, ResourceIndex},
};

/// A lock request for as long as it is pending, then the lock that it became.
///
/// No id is used twice. An id that outlived its request or lock is recognised, however often its
/// place was used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestId {
    /// The number of this request, which no other request of its lock manager has, past or to come.
    pub(crate) serial: u64,
    /// Where it stands.
    pub(crate) index: u32,
}

impl RequestId {
    /// The place of the request among the live ones, for a host that keeps something beside each
    /// live request. The number is small, and used again.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// The number of this request among all requests that its lock manager ever had.
    pub const fn serial(self) -> u64 {
        self.serial
    }

    /// Its index and its serial number.
    pub const fn to_parts(self) -> (u32, u64) {
        (self.index, self.serial)
    }

    /// The id with this index and serial number: for a host that had to take an id apart.
    pub const fn from_parts(index: u32, serial: u64) -> Self {
        Self { serial, index }
    }
}

/// What is asked for. The combinations that the specification refuses cannot be written down.
///
/// Spec: <https://w3c.github.io/web-locks/#api-lock-manager-request>
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum RequestKind {
    /// Wait in the queue until the lock can be had.
    Wait(Mode),
    /// Have the lock at once or not at all (`ifAvailable`).
    IfAvailable(Mode),
    /// Take the exclusive lock from all who hold the name (`steal`).
    Steal,
}

impl RequestKind {
    /// The mode of the lock that is asked for.
    pub const fn mode(self) -> Mode {
        match self {
            Self::Wait(mode) | Self::IfAvailable(mode) => mode,
            Self::Steal => Mode::Exclusive,
        }
    }

    /// Whether the request waits in its queue if it is not granted at once.
    pub const fn waits(self) -> bool {
        match self {
            Self::Wait(_) => true,
            Self::IfAvailable(_) | Self::Steal => false,
        }
    }

    /// Whether the request takes the lock from all who hold it.
    pub const fn steals(self) -> bool {
        match self {
            Self::Steal => true,
            Self::Wait(_) | Self::IfAvailable(_) => false,
        }
    }
}

/// A number that grows with every grant, so that a resource can refuse a late writer.
///
/// A resource that remembers the largest token it has seen, and refuses smaller ones, is safe from
/// a holder that was stopped, lost its lock, and woke up. Not part of the specification.
///
/// ```
/// use navlock_engine::FencingToken;
///
/// /// A resource that refuses late writers.
/// #[derive(Default)]
/// struct Store {
///     largest: Option<FencingToken>,
/// }
///
/// impl Store {
///     fn write(&mut self, token: FencingToken) -> Result<(), &'static str> {
///         if Some(token) < self.largest {
///             return Err("a later holder has written");
///         }
///         self.largest = Some(token);
///         Ok(())
///     }
/// }
///
/// let mut store = Store::default();
/// let (stopped, next) = (FencingToken::new(7), FencingToken::new(8));
/// assert!(store.write(next).is_ok());
/// assert!(store.write(stopped).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number: larger than that of every earlier grant of the same name.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How long a request waits.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Patience {
    /// Until it is granted.
    #[default]
    Endless,
    /// Until a deadlock, in which it fails.
    GivesWay,
    /// As long as it likes: it has a timeout or a signal. It keeps nobody waiting for ever.
    MayGiveUp,
}

/// Where a request stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It waits in its queue.
    Pending,
    /// It is a lock, held since the grant that gave it this token.
    Held(FencingToken),
    /// It was released, aborted, stolen, refused or terminated, or never existed here.
    Gone,
}

/// A lock request or a lock: a request becomes a lock by moving from one list to another.
///
/// Each node has a cache line of its own. When many requests end in no order, no node is in a cache,
/// and then each of them costs one line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Node<T> {
    pub(crate) serial: u64,
    /// The lock's token. While the request is pending, this is its [patience](Self::patience): an `Option`,
    /// or a part of `stage`, would take eight bytes more for each of a million waiters.
    pub(crate) token: FencingToken,
    pub(crate) owner: Owner,
    pub(crate) links: NodeLinks,
    pub(crate) stage: Stage,
    /// The host's data.
    pub(crate) data: T,
}

impl<T> Node<T> {
    /// How long the request waits, if it is pending.
    pub(crate) fn patience(&self) -> Patience {
        let all = [Patience::Endless, Patience::GivesWay, Patience::MayGiveUp];
        let said = |patience: &Patience| self.token == FencingToken(*patience as u64);
        let said = all.into_iter().find(said).filter(|_| self.stage == Stage::Pending);
        said.unwrap_or_default()
    }
}

/// What stands in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing.
    Vacant,
    /// A request.
    Pending,
    /// A lock.
    Held,
}

/// What a request is for, and whose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) resource: ResourceIndex,
    pub(crate) agent: AgentIndex,
    pub(crate) mode: Mode,
}

/// The neighbours of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeLinks {
    /// The neighbours in the name's queue, or in the name's held locks once the request is granted.
    pub(crate) by_name: Links,
    /// The neighbours among the agent's requests, or among the agent's locks once the request is
    /// granted.
    pub(crate) by_agent: Links,
}
