//! The news that a keeper is told, the calls that it makes, and the outcomes of the calls.

use std::time::Duration;

use super::history::Known;
use crate::{
    call_failure::Failure,
    clock::Uptime,
    data::{Answer, Listing, Transaction},
    key_store::LeaseEvent,
    keys::{BucketKeys, NameKey},
    lease::{LeaseName, Renewal},
    leases::LeaseCall,
    load::Turn,
    table::AgentSerial,
    transactions::Operation,
    watched::Watched,
};

/// The news of the calls that do not end by themselves, which keep a lease or watch.
pub(crate) enum News {
    Lease { lease: i64, word: LeaseEvent },
    Watched { watch: u64, watched: Watched },
}

/// A call that has to be made. Its outcome is a [`Done`], unless its description says otherwise.
#[derive(Debug)]
pub(crate) enum Call {
    Operate {
        of: Operated,
        transaction: Transaction,
        turn: Turn,
    },
    /// Waits before an operation is tried again. The operation may not be wanted any more after
    /// that.
    Pause {
        of: Operated,
        delay: Duration,
    },
    List {
        of: Listed,
        known: Known,
        prefix: Vec<u8>,
        /// How many keys are wanted.
        most: usize,
        /// The revision to list, or 0 for the one that the store has then.
        at: i64,
        delay: Duration,
    },
    /// The outcomes are [`Done::Leased`] and [`News::Lease`].
    Lease(LeaseCall),
    /// Asks which keys stand under a lease.
    LookUnder {
        lease: i64,
        why: Why,
    },
    /// Removes keys that belong to nobody. There is no outcome.
    Write {
        transaction: Transaction,
    },
    /// Writes locks of agents that were reclaimed.
    Adopt {
        of: u64,
        transaction: Transaction,
    },
    /// Writes what an agent has said of itself. Nothing depends on it.
    Describe {
        of: AgentSerial,
        transaction: Transaction,
    },
    /// Watches the keys with this prefix, from this revision or from now on, until it is told to
    /// stop. The outcomes are [`News::Watched`].
    Watch {
        watch: u64,
        keys: BucketKeys,
        prefix: Vec<u8>,
        from: Option<i64>,
    },
    Unwatch {
        watch: u64,
    },
}

/// Why the keys under a lease are listed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// To find keys that belong to nobody, and keys that are missing.
    Sweep,
    /// To find the keys that agents of this bucket, which have come back, have left there.
    Left(u64),
}

/// The outcome of a call.
#[derive(Debug)]
pub(crate) enum Done {
    Operated(Operated, Result<Answer, Failure>),
    /// It is time to try this operation again.
    Paused(Operated),
    Listed(Listed, Known, Result<Listing, Failure>),
    Leased(Result<(LeaseName, Renewal), Failure>),
    /// The locks for this reclaim were written, or could not be.
    Adopted(u64, Result<Answer, Failure>),
    /// The description of this agent was written, or could not be.
    Described(AgentSerial),
    /// The keys under this lease.
    Under(i64, Why, Result<Vec<Vec<u8>>, Failure>),
}

/// An operation on its way.
#[derive(Clone, Debug)]
pub(crate) struct Operated {
    pub(super) bucket: u64,
    pub(super) name: NameKey,
    pub(super) operation: Operation,
    /// How many tries there were before.
    pub(super) tries: u32,
    /// What was known when the operation was sent.
    pub(super) known: Known,
    /// What is known of the owner of the name, if it was asked for the name.
    pub(super) asked: Option<OwnerAsked>,
}

/// A question to the owner of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnerAsked {
    /// Since when the owner is asked.
    pub(super) begun: Uptime,
    /// The revision that had last written the owner's key when it was seen without a mark; the largest
    /// number before that.
    pub(super) seen: i64,
}

/// What a list is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listed {
    /// The name of this watch. The second number is how often the watch had begun.
    Name(u64, u64),
    /// This query.
    Query(u64),
    /// The reason why the store does not know this lease.
    Lease(i64),
}
