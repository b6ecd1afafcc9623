//! The scripts of machines, and the faults.

use navlock_core::host::RequestKind;

/// An act on a machine. The acts of a script come in their order, whenever the explorer takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    Request(&'static str, RequestKind),
    /// A request by another agent than the first, which is number 0.
    RequestBy(usize, &'static str, RequestKind),
    /// Releases or aborts the nth request.
    Finish(usize),
    /// An agent ends, with all that it has.
    End(usize),
    /// An agent says something of itself.
    Describe(usize),
    /// Somebody asks what is held.
    Query,
    /// Nobody uses the bucket any more.
    Close,
    /// An agent comes that uses another bucket.
    OpenElsewhere,
}

impl Act {
    /// The agent that acts, by its number on the machine.
    pub(super) fn agent(&self) -> usize {
        match *self {
            Self::RequestBy(agent, ..) | Self::End(agent) | Self::Describe(agent) => agent,
            Self::Request(..)
            | Self::Finish(_)
            | Self::Query
            | Self::Close
            | Self::OpenElsewhere => 0,
        }
    }

    /// The name of the lock that the act asks for, if it asks for one.
    pub(super) fn name(&self) -> Option<&'static str> {
        match *self {
            Self::Request(name, _) | Self::RequestBy(_, name, _) => Some(name),
            _ => None,
        }
    }

    /// The kind of the request that the act makes, if it makes one.
    pub(super) fn kind(&self) -> Option<RequestKind> {
        match *self {
            Self::Request(_, kind) | Self::RequestBy(_, _, kind) => Some(kind),
            _ => None,
        }
    }
}

/// What may go wrong, and how often in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// A call is lost, or its answer is lost, or the call comes late.
    pub(super) calls: u32,
    /// A watch ends and begins anew.
    pub(super) watches: u32,
    /// A machine is cut off for longer than its leases last.
    pub(super) cuts: u32,
    /// The machine notices the cut before its leases are over for the store as well.
    pub(super) notices: u32,
    /// A process is killed, and another process goes on for its clients.
    pub(super) kills: u32,
    /// Somebody ends a lease that is kept.
    pub(super) revokes: u32,
    /// Somebody removes a lock or a request.
    pub(super) evictions: u32,
    /// A machine does nothing for so long that it forgets the names that it does not use.
    pub(super) pauses: u32,
    /// The watches of a machine hang, and nobody notices. Its leases are renewed meanwhile.
    pub(super) deaf: u32,
    /// The store answers nothing of a machine but renewals of its leases, and its watches.
    pub(super) stalls: u32,
}

impl Faults {
    pub(super) fn each(&mut self) -> [&mut u32; 10] {
        let Self { calls, watches, cuts, notices, kills, revokes, .. } = self;
        let Self { evictions, pauses, deaf, stalls, .. } = self;
        [calls, watches, cuts, notices, kills, revokes, evictions, pauses, deaf, stalls]
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The script of a machine goes on.
    Act(usize),
    /// The store gets a call of a machine.
    Execute(usize, usize),
    /// A machine gets an answer.
    Answer(usize, usize),
    /// The nth watch of a machine tells it of the next revision.
    Receive(usize, usize),
    Lose(usize, usize),
    LoseAnswer(usize, usize),
    Delay(usize, usize),
    /// All watches of a machine end, and begin anew.
    BreakWatch(usize),
    /// A machine forgets the names that it does not use.
    Pause(usize),
    /// A machine is cut off until its clock has passed the end of its leases. The store keeps the leases
    /// for a moment longer. The work under the machine's locks is told to end.
    Cut(usize),
    /// The machine notices the cut, and the store can be reached again.
    Notice(usize),
    /// From here on the store may end those leases. The work under the locks has ended.
    Over(usize),
    /// The store ends a lease that nobody keeps.
    Expire(i64),
    /// Somebody ends the nth lease that a machine keeps.
    Revoke(usize, usize),
    /// Somebody removes the nth lock or request.
    Evict(usize),
    /// A machine learns that one of its leases is gone.
    LearnGone(usize),
    Kill(usize),
    /// The watches of a machine tell nothing from here on.
    Deafen(usize),
    /// The watches of a machine tell of everything again.
    Hear(usize),
    /// The operations of a machine, and their answers, get no further from here on.
    Stall(usize),
    /// They go on. Nothing else happens.
    Flow(usize),
    /// Nothing else happens, and the keeper of a machine has a tick.
    Tick(usize),
}
