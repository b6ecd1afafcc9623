//! What `inspect()` answers: the answer of `query()`, with more than the specification has a place
//! for.

use std::{sync::Arc, time::Duration};

use navlock_engine::{FencingToken, ResourceName};

use crate::{ClientId, LockInfo, LockManagerSnapshot, further::Further};

/// What an agent says of itself, for people who wonder who holds their lock.
///
/// No decision depends on this, and nobody checks it.
///
/// ```
/// # use navlock::AgentInfo;
/// let info = AgentInfo::default().why("nightly backup").meta("url", "http://localhost:3000");
/// assert_eq!(info.why, "nightly backup");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct AgentInfo {
    /// The process.
    pub pid: u32,
    /// The process of `navlock run` or `navlock hold` that keeps the locks for that process; 0 if a program
    /// holds them itself.
    pub keeper: u32,
    /// What runs in the process: by default the program without its arguments, because arguments may
    /// be secret, and everybody who shares the locks sees this.
    pub command: String,
    /// The user whose process it is.
    pub user: String,
    /// The machine that it runs on.
    pub host: String,
    /// What the agent wants its locks for; empty if it does not say. Where the info is shown with a
    /// lock or request that says [more](crate::LockRequest::why), this is what it is for.
    pub why: String,
    /// What else the agent says of itself, as keys and values of its choice: say, `url` and the
    /// address at which its work can be seen. In the agent's order.
    pub meta: Vec<(String, String)>,
}

/// What is held and what is pending in a bucket, at one moment, with all that is known of it.
///
/// When the caller looks at this, the state may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The held locks, in the order of [`LockManagerSnapshot::held`].
    pub held: Vec<Inspected>,
    /// The pending requests, in the order of [`LockManagerSnapshot::pending`].
    pub pending: Vec<Inspected>,
    /// Names that nobody holds, but that an agent owns: where locks are kept by another process, the
    /// process of an agent that had the lock of a name may take and release it again and again without
    /// asking, until somebody else asks for it. Empty if the reach has no such names.
    pub owned: Vec<Inspected>,
    /// How many locks and requests there are that are not shown, because a reach shows only a
    /// limited number at once. A reach that is asked for one name may show more of that name. What
    /// is left out may be anywhere in the queues.
    pub left_out: u64,
}

/// One lock, pending request or owned name, with all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Inspected {
    /// What `query()` shows of it.
    pub lock: LockInfo,
    /// Whose it is; `None` if the reach does not know.
    pub agent: Option<Arc<AgentInfo>>,
    /// For how long it has been held, pending or owned; `None` if the reach does not know.
    pub age: Option<Duration>,
    /// The fencing token of a held lock; `None` if the reach does not tell.
    pub fencing_token: Option<FencingToken>,
    /// How often an owned name was taken without asking since it is owned.
    pub taken: u64,
    /// What only hosts need to know of it.
    #[doc(hidden)]
    #[cfg_attr(feature = "serde", serde(skip))]
    pub further: Further,
}

/// Where an agent stands in the queue of a name, and who is in its way.
///
/// When the caller looks at this, it may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Position {
    /// The first of those who hold the name.
    pub holder: Option<Inspected>,
    /// How many hold it.
    pub holders: usize,
    /// How many requests are before the first request of the agent. `None` if the agent has no
    /// request in the queue, or if the reach does not know because it has not looked at all of a
    /// very long queue.
    pub ahead: Option<usize>,
}

impl AgentInfo {
    /// Sets the process.
    #[must_use]
    pub fn pid(self, pid: u32) -> Self {
        Self { pid, ..self }
    }

    /// Sets what runs in the process.
    #[must_use]
    pub fn command(self, command: impl Into<String>) -> Self {
        Self { command: command.into(), ..self }
    }

    /// Sets the user.
    #[must_use]
    pub fn user(self, user: impl Into<String>) -> Self {
        Self { user: user.into(), ..self }
    }

    /// Sets the machine.
    #[must_use]
    pub fn host(self, host: impl Into<String>) -> Self {
        Self { host: host.into(), ..self }
    }

    /// Sets what the agent wants its locks for.
    #[must_use]
    pub fn why(self, why: impl Into<String>) -> Self {
        Self { why: why.into(), ..self }
    }

    /// Adds one more key with its value.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.meta.push((key.into(), value.into()));
        self
    }

    /// How many bytes its texts have.
    #[doc(hidden)]
    pub fn size(&self) -> usize {
        let meta = self.meta.iter().flat_map(|(key, value)| [key, value]);
        let texts = [&self.command, &self.user, &self.host, &self.why];
        texts.into_iter().chain(meta).map(String::len).sum()
    }

    /// Takes over what `more` says. What `more` leaves empty stays as it is known.
    pub fn update(&mut self, more: &Self) {
        let Self { pid, keeper, command, user, host, why, meta } = self;
        for (known, said) in [(pid, more.pid), (keeper, more.keeper)] {
            if said != 0 {
                *known = said;
            }
        }
        let texts =
            [(command, &more.command), (user, &more.user), (host, &more.host), (why, &more.why)];
        for (known, said) in texts.into_iter().filter(|(_, said)| !said.is_empty()) {
            known.clone_from(said);
        }
        if !more.meta.is_empty() {
            meta.clone_from(&more.meta);
        }
    }
}

impl Position {
    /// A position with these values: for a [`Backend`](crate::host::Backend).
    pub fn new(holder: Option<Inspected>, holders: usize, ahead: Option<usize>) -> Self {
        Self { holder, holders, ahead }
    }

    /// Where the agent of this client id stands in the queue of this name.
    pub fn among(inspection: Inspection, name: &ResourceName, client_id: ClientId) -> Self {
        let Inspection { held, pending, left_out, .. } = inspection;
        let mut held = held.into_iter().filter(|held| held.lock.name == *name);
        let mut pending = pending.iter().filter(|pending| pending.lock.name == *name);
        let holder = held.next();
        Self {
            holders: usize::from(holder.is_some()) + held.count(),
            holder,
            // Requests that are left out may be anywhere in the queue.
            ahead: pending
                .position(|pending| pending.lock.client_id == client_id)
                .filter(|_| left_out == 0),
        }
    }
}

impl Inspection {
    /// An inspection with these locks and requests: for a [`Backend`](crate::host::Backend).
    pub fn new(held: Vec<Inspected>, pending: Vec<Inspected>) -> Self {
        Self { held, pending, owned: Vec::new(), left_out: 0 }
    }
}

impl Inspected {
    /// One lock or request of which nothing further is known: for a
    /// [`Backend`](crate::host::Backend).
    pub fn new(lock: LockInfo) -> Self {
        let (agent, age, fencing_token, taken) = (None, None, None, 0);
        Self { lock, agent, age, fencing_token, taken, further: Further::default() }
    }

    /// Shows that this lock or request is for `why`, in place of what its agent says of all its
    /// locks: for a [`Backend`](crate::host::Backend).
    pub fn set_why(&mut self, why: &str) {
        why.clone_into(&mut Arc::make_mut(self.agent.get_or_insert_default()).why);
    }
}

impl From<LockManagerSnapshot> for Inspection {
    fn from(snapshot: LockManagerSnapshot) -> Self {
        let inspected = |locks: Vec<_>| locks.into_iter().map(Inspected::new).collect();
        Self::new(inspected(snapshot.held), inspected(snapshot.pending))
    }
}
