//! The locks and requests that a client had through an earlier daemon.

use navlock_core::{
    Lost,
    host::{Claim, RequestKind},
};
use navlock_engine::RequestId;
use navlock_wire::{Agent, Moment};

use super::{super::outcome::Outcome, ClientRecord};

/// A lock that a client held, or a request that was pending, when the earlier daemon ended.
#[derive(Clone, Debug)]
pub(in super::super) struct Claimed {
    pub(in super::super) agent: Agent,
    pub(in super::super) request: RequestId,
    /// When it was asked for, or granted.
    pub(in super::super) since: Moment,
    pub(in super::super) claim: Claim,
}

impl Claimed {
    /// By this, requests are put into their order.
    pub(in super::super) fn place(&self) -> (Moment, u64) {
        (self.since, self.request.serial())
    }
}

impl ClientRecord {
    /// Makes a lock held again, or puts a request into its queue again.
    pub(in super::super) fn reinstate(&mut self, claimed: Claimed) {
        let Claimed { agent, request, since, claim: Claim { name, kind, token, .. } } = claimed;
        // The client has claimed it twice.
        if self.requests.contains(request) {
            return;
        }
        // Locks come first, and until then locks were granted only to clients that held them before. So
        // each can be had at once.
        let is_lock = token.is_some();
        let kind = if is_lock { RequestKind::IfAvailable(kind.mode()) } else { kind };
        match (is_lock, self.make(agent, request, name, kind, None)) {
            (true, Some(Outcome::Granted(..))) | (false, None) => {
                self.requests.date_back(request, since, token);
                self.note_request(request, token);
                self.requests.tell(request);
            }
            (false, Some(outcome)) => self.requests.settle(request, outcome),
            (true, _) => {
                self.requests.finish(request);
                self.requests.settle(request, Outcome::Lost(Lost::Disconnected, None));
            }
        }
    }
}
