//! What machines do, and what goes wrong.

use navlock_core::host::RequestKind;

/// What somebody on a machine does, in this order, whenever the explorer lets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    Request(&'static str, RequestKind),
    /// The same by another agent than the first, which is number 0.
    RequestBy(usize, &'static str, RequestKind),
    /// Releases or aborts the nth request.
    Finish(usize),
    /// An agent ends, with all that it has.
    End(usize),
    /// An agent says something of itself.
    Describe(usize),
    /// Nobody uses the bucket any more.
    Close,
    /// An agent comes that uses another bucket.
    OpenElsewhere,
}

impl Act {
    /// Whose request it is, by number on its machine.
    pub(super) fn agent(&self) -> usize {
        match *self {
            Self::RequestBy(agent, ..) | Self::End(agent) | Self::Describe(agent) => agent,
            Self::Request(..) | Self::Finish(_) | Self::Close | Self::OpenElsewhere => 0,
        }
    }

    /// What it asks for a lock of, if it does.
    pub(super) fn name(&self) -> Option<&'static str> {
        match *self {
            Self::Request(name, _) | Self::RequestBy(_, name, _) => Some(name),
            _ => None,
        }
    }

    /// What it asks for, if it does.
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
    /// A call is lost, or its answer is, or it comes late.
    pub(super) calls: u32,
    /// A watch ends and begins anew.
    pub(super) watches: u32,
    /// A machine is cut off for longer than its leases last.
    pub(super) cuts: u32,
    /// It notices that before its leases are over for etcd as well.
    pub(super) notices: u32,
    /// A process is killed, and another one goes on for its clients.
    pub(super) kills: u32,
    /// Somebody ends a lease that is kept.
    pub(super) revokes: u32,
    /// Somebody removes a lock or a request.
    pub(super) evictions: u32,
    /// A machine has done nothing for so long that it forgets the names that it does not use.
    pub(super) pauses: u32,
}

impl Faults {
    pub(super) fn each(&mut self) -> [&mut u32; 8] {
        let Self { calls, watches, cuts, notices, kills, revokes, evictions, pauses } = self;
        [calls, watches, cuts, notices, kills, revokes, evictions, pauses]
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The script of a machine goes on.
    Act(usize),
    /// Etcd gets a call of a machine.
    Execute(usize, usize),
    /// A machine gets an answer.
    Answer(usize, usize),
    /// A machine hears by its nth watch of the next revision.
    Hear(usize, usize),
    Lose(usize, usize),
    LoseAnswer(usize, usize),
    Delay(usize, usize),
    /// All watches of a machine end, and begin anew.
    BreakWatch(usize),
    /// A machine forgets the names that it does not use.
    Pause(usize),
    /// A machine is cut off until its clock has passed the end of its leases, which etcd keeps for a
    /// moment more. What works under its locks is told to end.
    Cut(usize),
    /// It notices that, and etcd can be reached again.
    Notice(usize),
    /// Etcd may end those leases by now. What worked under the locks has ended.
    Over(usize),
    /// Etcd ends a lease that nobody keeps.
    Expire(i64),
    /// Somebody ends the nth lease that a machine keeps.
    Revoke(usize, usize),
    /// Somebody removes the nth lock or request that there is.
    Evict(usize),
    /// A machine hears that a lease of its is gone.
    HearGone(usize),
    Kill(usize),
    /// Nothing else happens: a machine looks after itself.
    Tick(usize),
}
