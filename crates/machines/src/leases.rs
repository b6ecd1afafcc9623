//! Which agent is under which lease, and what follows when a lease is asked for, renewed, late or lost.
//!
//! A connection has one lease of its own, which its agents share. It is asked for when the first agent needs it, and
//! kept until the connection ends. There may also be leases of another connection, whose agents this one has taken
//! over.

mod agent;
mod beginning;
mod ending;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use self::agent::Under;
pub(crate) use self::agent::{Agent, Stale};
use crate::{
    clock::Uptime,
    hash::HashState,
    lease::{LeaseName, Renewal},
    shared::Shared,
    table::{Again, AgentSerial},
    times::Times,
};

/// How long it is tried to take agents over from another connection. The host that speaks for the agents does not let
/// others wait for longer.
pub(crate) const RECLAIM_TIMEOUT: Duration = Duration::from_secs(9);

/// The agents of a connection, and their leases. `N` is what the store notes with each lease. The terms of agents
/// stand in the table, where callers see them.
///
/// # Calling order
///
/// The store enters agents in [`agents`](Self::agents) when they are opened, and removes them when they have ended,
/// with [`let_go_unused`](Self::let_go_unused). It says
///
/// - that an agent asks for something: [`attach`](Self::attach) if there is a lease already, [`need`](Self::need) if
///   it cannot go on without one, [`take_over`](Self::take_over) if it goes on with what it had;
/// - the outcome of each call: [`begun`](Self::begun), [`not_begun`](Self::not_begun), [`renewed`](Self::renewed);
/// - that it does not know a lease any more: [`doubt`](Self::doubt) if it has to be asked why, then
///   [`lose`](Self::lose);
/// - a few times a second, that time has passed: what is [`over`](Self::over) is then to be lost, and what was held
///   under what is [`expired`](Self::expired) to be removed;
/// - that the connection ends: [`end_own`](Self::end_own) and [`expire_all`](Self::expire_all) if no agents are left.
///
/// After each of these it takes calls with [`poll_call`](Self::poll_call) until there is none, and makes them.
pub(crate) struct Leases<N> {
    shared: Arc<Shared>,
    times: Times,
    /// The agents, by the numbers that the table has given them. One that has ended leaves its lease to others.
    pub(crate) agents: HashMap<AgentSerial, Agent, HashState>,
    /// The leases that this connection renews.
    kept: HashMap<i64, Lease<N>, HashState>,
    own: Own,
    /// The leases that are lost for this connection and may not have ended in the store yet.
    expiring: HashMap<i64, Expiring, HashState>,
    calls: VecDeque<LeaseCall>,
}

/// A call of the store that concerns a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseCall {
    /// Asks for a lease after this time. The outcome is [`Leases::begun`] or [`Leases::not_begun`].
    Begin {
        /// How long to wait before.
        delay: Duration,
    },
    /// Renews a lease until it is let go. The outcomes are [`Leases::renewed`], and the news that the store does not
    /// know the lease any more.
    Keep {
        /// The lease.
        lease: i64,
        /// For how long a new lease is good; `None` for a lease of another connection, which is renewed at once.
        time_to_live: Option<Duration>,
    },
    /// Renews a lease that is kept now, and not only when that is due.
    Renew {
        /// The lease.
        lease: i64,
    },
    /// Ends the renewals.
    LetGo {
        /// The lease.
        lease: i64,
    },
    /// Ends a lease, with all that stands under it. It has no outcome.
    Revoke {
        /// The lease.
        lease: i64,
    },
}

/// The connection's own lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Own {
    #[default]
    None,
    /// The lease was asked for.
    Coming,
    /// The lease was granted, and is kept.
    There(i64),
}

/// A lease that is kept.
#[derive(Debug)]
pub(crate) struct Lease<N> {
    /// Its name.
    pub(crate) name: LeaseName,
    /// What is known of it.
    pub(crate) state: LeaseState,
    /// The last renewal that the store has answered. Before the first one of a lease that was taken over: the moment
    /// at which that was done.
    pub(crate) renewal: Renewal,
    /// What the store notes of it.
    pub(crate) notes: N,
}

/// What is known of a lease that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseState {
    /// The lease was another connection's. This connection has tried to renew it since this moment.
    TakenOver(Uptime),
    /// The store has renewed it.
    Live,
    /// The store does not know the lease any more, and is asked for the reason.
    Doubted,
}

/// A lease that is over for this connection and may not be over for others.
#[derive(Clone, Copy, Debug)]
struct Expiring {
    /// From this moment on, others may be granted what was held under it.
    expires: Uptime,
    is_own: bool,
}

/// What an agent gets that [needs](Leases::need) a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It is under a lease now.
    Has,
    /// It is under one as soon as the store has begun or renewed that.
    Waits,
    /// The term of this lease is over. It has to be [lost](Leases::lose) first, and then the agent needs another one.
    Lose(i64),
}

/// What follows from a [renewal](Leases::renewed).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// The agents under the lease have a longer term.
    Kept,
    /// The lease of another connection was renewed for the first time. These agents go on under it from now on.
    TakenOver(Vec<AgentSerial>),
    /// It came too late: the term of an agent is over. The lease has to be [lost](Leases::lose).
    TooLate,
}

/// What is left of a lease that is [lost](Leases::lose).
#[derive(Debug)]
pub(crate) struct Loss {
    /// The agents that were under it.
    pub(crate) agents: Vec<AgentSerial>,
    /// The requests that have to be made again, in the order in which they were made before.
    pub(crate) again: Vec<(AgentSerial, Again)>,
}

impl<N> Leases<N> {
    /// No agents and no leases.
    pub(crate) fn new(shared: Arc<Shared>, times: Times) -> Self {
        Self {
            shared,
            times,
            agents: HashMap::default(),
            kept: HashMap::default(),
            own: Own::None,
            expiring: HashMap::default(),
            calls: VecDeque::new(),
        }
    }

    /// The next call to make, if there is one.
    pub(crate) fn poll_call(&mut self) -> Option<LeaseCall> {
        self.calls.pop_front()
    }

    /// The agents that are like this, in the order in which they were opened.
    pub(crate) fn agents_that(&self, are_so: impl Fn(&Agent) -> bool) -> Vec<AgentSerial> {
        let found = self.agents.iter().filter(|(_, agent)| are_so(agent));
        let mut found: Vec<_> = found.map(|(serial, _)| *serial).collect();
        found.sort_unstable();
        found
    }

    /// The agents under this lease, in the order in which they were opened.
    pub(crate) fn under(&self, lease: i64) -> Vec<AgentSerial> {
        self.agents_that(|agent| agent.under == Under::Lease(lease))
    }

    /// The connection's own lease, if it is there.
    pub(crate) fn own(&self) -> Option<i64> {
        match self.own {
            Own::There(lease) => Some(lease),
            Own::None | Own::Coming => None,
        }
    }

    /// A lease that is kept.
    pub(crate) fn get(&self, lease: i64) -> Option<&Lease<N>> {
        self.kept.get(&lease)
    }

    /// A lease that is kept, if the store has renewed it and, as far as is known, still knows it.
    pub(crate) fn live(&self, lease: i64) -> Option<&Lease<N>> {
        self.get(lease).filter(|lease| lease.state == LeaseState::Live)
    }

    /// What the store notes of a lease that is kept.
    pub(crate) fn notes_mut(&mut self, lease: i64) -> Option<&mut N> {
        self.kept.get_mut(&lease).map(|lease| &mut lease.notes)
    }

    /// The leases that are kept, in the order of their numbers.
    pub(crate) fn ids(&self) -> Vec<i64> {
        let mut ids: Vec<_> = self.kept.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Whether this lease is kept and was another connection's.
    pub(crate) fn is_of_another(&self, lease: i64) -> bool {
        self.own() != Some(lease) && self.kept.contains_key(&lease)
    }

    /// Whether this lease is lost for this connection, and others may not be granted what was held under it yet. The
    /// work under its locks has to end before that, even if the store is heard of again meanwhile.
    pub(crate) fn is_expiring(&self, lease: i64) -> bool {
        self.expiring.contains_key(&lease)
    }

    /// Whether nothing happens by itself when time passes that anybody has to be told.
    pub(crate) fn is_idle(&self) -> bool {
        self.agents.is_empty() && self.expiring.is_empty()
    }
}

impl<N: fmt::Debug> fmt::Debug for Leases<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, kept, expiring, calls, .. } = self;
        let mut leases = f.debug_struct("Leases");
        leases.field("own", own).field("kept", kept).field("expiring", expiring);
        leases.field("calls", calls).finish_non_exhaustive()
    }
}
