//! The locks of a client that stand in its map.

use std::sync::{Arc, Weak};

use navlock_core::{
    LockManager, Mode, ResourceName,
    host::{self, RequestKind},
};
use navlock_engine::{FencingToken, RequestId};
use navlock_wire::Slot;

use super::{
    super::{
        delegations::{Delegation, Grant, Holder},
        map::ClientMap,
        outcome::Outcome,
        requests::Shown,
    },
    ClientRecord,
};

impl ClientRecord {
    /// Sets the client's map.
    pub(in super::super) fn set_map(&mut self, map: Arc<ClientMap>) {
        self.map = Some(map);
    }

    pub(in super::super) fn has_map(&self) -> bool {
        self.map.is_some()
    }

    /// Ensures that locks of this name that are granted from now on get larger tokens than its owners have
    /// had. Returns whether the name can be owned.
    pub(super) fn raise_tokens(
        &self,
        locks: &LockManager,
        bucket: &str,
        name: &ResourceName,
    ) -> bool {
        self.delegations.as_ref().is_some_and(|delegations| {
            let least = delegations.least_token(bucket, name);
            host::backend(locks).is_ok_and(|(backend, _)| backend.raise_tokens(least))
        })
    }

    /// Puts the lock of a request into its slot, if the lock is to stand in one. `outcome` is the
    /// request's outcome so far.
    pub(super) fn place(
        &mut self,
        request: RequestId,
        kind: RequestKind,
        slot: Option<Slot>,
        can_own: bool,
        outcome: Option<Outcome>,
    ) -> Option<Outcome> {
        let is_theft = kind.steals();
        if is_theft && matches!(outcome, Some(Outcome::Granted(..))) {
            self.steal(request);
        }
        if let Some(slot) = slot.filter(|_| self.map.is_some()) {
            self.requests.want(request, slot);
        }
        match outcome {
            // The lock was granted at once, so nobody waits for the name, except for requests that
            // a theft has overtaken.
            Some(Outcome::Granted(token, _)) => {
                Some(self.grant(request, token, can_own && !is_theft))
            }
            outcome => outcome,
        }
    }

    /// Shows the theft by this request to its victims, in their maps.
    fn steal(&self, request: RequestId) {
        let (Some(delegations), Some(shown)) = (&self.delegations, self.requests.of(request))
        else {
            return;
        };
        if let Some(bucket) = self.bucket(shown.agent) {
            delegations.steal(bucket, shown.name);
        }
    }

    /// Enters a lock that was just granted in its slot, if the lock is to stand in one. If `owned` is
    /// set, the client owns the name from now on.
    pub(super) fn grant(
        &mut self,
        request: RequestId,
        token: FencingToken,
        owned: bool,
    ) -> Outcome {
        let Some(wanted) = self.requests.wanted(request) else {
            return Outcome::Granted(token, false);
        };
        let delegation = self.grant_in(wanted, request, token, owned);
        let is_in_slot = delegation.is_some();
        self.requests.put(request, delegation);
        Outcome::Granted(token, is_in_slot)
    }

    fn grant_in(
        &self,
        slot: Slot,
        request: RequestId,
        token: FencingToken,
        owned: bool,
    ) -> Option<Delegation> {
        let (Some(delegations), Some(map)) = (&self.delegations, &self.map) else { return None };
        let placed = self.placed(map, slot, request, token, owned)?;
        let owned = owned && (map.shares || placed.mode == Mode::Exclusive);
        delegations.grant(Grant { owned, ..placed })
    }

    /// Describes the grant of this request in this slot.
    fn placed<'a>(
        &'a self,
        map: &'a Arc<ClientMap>,
        slot: Slot,
        request: RequestId,
        token: FencingToken,
        owned: bool,
    ) -> Option<Grant<'a>> {
        let Shown { agent, name, mode, .. } = self.requests.of(request)?;
        let open = self.agents.get(&agent)?;
        let (bucket, client_id) = (&open.of.bucket, open.of.client_id);
        let client: Weak<dyn Holder> = self.me.clone();
        Some(Grant { client, map, slot, request, bucket, name, mode, client_id, token, owned })
    }

    /// Notes in which slots of its map these locks stand.
    pub(in super::super) fn stand_in(&mut self, map: &Arc<ClientMap>, slots: &[(RequestId, Slot)]) {
        // What was robbed meanwhile stands in no slot.
        self.requests.settle_all();
        for &(request, slot) in slots {
            let token = self.requests.of(request).and_then(|shown| shown.token);
            let placed = token.and_then(|token| self.placed(map, slot, request, token, false));
            let delegations = self.delegations.as_ref();
            let delegation = delegations.zip(placed).and_then(|(all, placed)| all.keep(placed));
            if delegation.is_some() {
                self.requests.put(request, delegation);
            } else {
                // The lock was lost to a newer one, or has been released since.
                map.take_back(slot);
                self.requests.finish(request);
            }
        }
    }
}
