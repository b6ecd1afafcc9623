//! The locks and requests that a client had through an earlier daemon.

use navlock_core::{Lost, Mode, ResourceName, host::RequestKind};
use navlock_engine::{FencingToken, RequestId};
use navlock_wire::{Agent, Moment};

use super::{super::outcome::Outcome, ClientRecord};

/// A lock that a client held when the earlier daemon ended.
#[derive(Debug)]
pub(in super::super) struct ClaimedLock {
    pub(in super::super) agent: Agent,
    pub(in super::super) request: RequestId,
    pub(in super::super) name: ResourceName,
    pub(in super::super) mode: Mode,
    pub(in super::super) token: FencingToken,
    pub(in super::super) since: Moment,
}

/// A request that was pending when the earlier daemon ended.
#[derive(Debug)]
pub(in super::super) struct ClaimedRequest {
    pub(in super::super) agent: Agent,
    pub(in super::super) request: RequestId,
    pub(in super::super) name: ResourceName,
    pub(in super::super) kind: RequestKind,
    pub(in super::super) since: Moment,
}

impl ClientRecord {
    /// Makes a lock held again that was held when the earlier daemon ended.
    pub(in super::super) fn reinstate(&mut self, lock: ClaimedLock) {
        let ClaimedLock { agent, request, name, mode, token, since } = lock;
        // The client has claimed this lock twice.
        if self.requests.contains(request) {
            return;
        }
        // So far, locks were granted only to clients that held them before, so this lock can be had
        // at once.
        let asked = self.make(agent, request, name, RequestKind::IfAvailable(mode), None);
        if let Some(Outcome::Granted(..)) = asked {
            self.requests.date_back(request, since, Some(token));
            self.note_request(request, Some(token));
            self.requests.tell(request);
        } else {
            self.requests.finish(request);
            self.settle(request, Outcome::Lost(Lost::Disconnected, None));
        }
    }

    /// Puts a request that was pending when the earlier daemon ended into its queue.
    pub(in super::super) fn requeue(&mut self, claim: ClaimedRequest) {
        let ClaimedRequest { agent, request, name, kind, since } = claim;
        if self.requests.contains(request) {
            return;
        }
        if let Some(outcome) = self.make(agent, request, name, kind, None) {
            self.settle(request, outcome);
        } else {
            self.requests.date_back(request, since, None);
            self.note_request(request, None);
            self.requests.tell(request);
        }
    }
}
