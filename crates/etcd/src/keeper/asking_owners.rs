//! Asking another connection to give up a name that it owns, and how long to wait for its answer.

use super::{
    Call, Keeper, Operated,
    messages::OwnerAsked,
    ownership::{AGAIN, QUERY_TIMEOUT},
};
use crate::{
    clock::Uptime,
    data::{Answer, KeyValue},
    table::Status,
    transactions::{AskPurpose, Force, Operation, Owning, ask_owner},
};
use std::time::Duration;

impl Keeper {
    /// Whether a request has found that another connection owns the name, in a case where the owner
    /// may not need the name, or has to cease to grant it. If so, this asks the owner to give up
    /// the name, and the request is made again in a moment.
    pub(super) fn asks_owner(&mut self, of: &Operated, answer: &Answer) -> bool {
        let (ask, steals) = match &of.operation {
            Operation::IfAvailable(ask) => (ask, None),
            Operation::Steal(ask, _) => (ask, Some(Operation::Steal(ask.clone(), Force::Robs))),
            _ => return false,
        };
        let Some(owned) = of.operation.read(of.tries > 0, answer).owner else { return false };
        if steals.is_none() && Owning::is_for_run(&owned.value) {
            return false;
        }
        let id = self.slots.holder(ask.request);
        let status = id.map(|id| self.shared.table().status(id));
        if !matches!(status, Some(Status::Pending(_))) {
            return false;
        }
        let keys = self.buckets.get(&of.bucket).map(|opened| &opened.bucket.keys);
        let key = keys.and_then(|keys| keys.parse(&owned.key));
        // A connection does not ask itself: nothing else is done about the name meanwhile, so it
        // could not give its own name up. An owner key without a lease was written by no
        // connection, so no connection gives it up.
        let can_be_asked =
            owned.lease != 0 && key.is_some_and(|key| key.request.owner != self.slots.me());
        let timeout = self.owner_timeout();
        let asks = AskPurpose::of(&owned.value);
        let OwnerAsked { begun, seen } =
            of.asked.unwrap_or(OwnerAsked { begun: Uptime::now(), seen: i64::MAX });
        // The owner has taken a mark back that was put after the key was seen here without one: an
        // agent there holds the name. A key that has never had a mark is another ownership.
        let is_answered = asks.is_none() && owned.written > seen.max(owned.made);
        if steals.is_none() && is_answered {
            return false;
        }
        let seen = if asks.is_none() { owned.written } else { seen };
        let asked = self.note_asked(&owned);
        // Etcd may refuse to write the mark that asks the owner.
        let is_late = asked.elapsed() >= timeout || begun.elapsed() >= timeout;
        let (operation, delay) = if !can_be_asked || is_late {
            let Some(robs) = steals else { return false };
            (robs, Duration::ZERO)
        } else {
            let purpose = if steals.is_some() { AskPurpose::ToHave } else { AskPurpose::IfFree };
            // An answer to an earlier question of another request may be older than this request.
            let is_anew = of.asked.is_none() && steals.is_none() && asks == Some(purpose);
            if purpose.says_more(&owned) || is_anew {
                let transaction = ask_owner(&owned, purpose);
                self.calls.push_back(Call::Write { transaction });
            }
            // The request is made ever more rarely while the owner does not answer.
            let rest = timeout.saturating_sub(asked.elapsed());
            (of.operation.clone(), AGAIN.max((begun.elapsed() / 4).min(rest)))
        };
        let asked = Some(OwnerAsked { begun, seen });
        let of = Operated { operation, asked, ..of.clone() };
        self.calls.push_back(Call::Pause { of, delay });
        true
    }

    /// How long to wait for an owner that was asked to give up a name. A query waits twice as long.
    pub(super) fn owner_timeout(&self) -> Duration {
        self.options.time_to_live.min(QUERY_TIMEOUT) / 2
    }

    /// Since when the owner that this key names is known to have been asked to give up its name. So
    /// the next request does not start to wait anew for an owner that does not answer.
    pub(super) fn note_asked(&mut self, owned: &KeyValue) -> Uptime {
        let asks = AskPurpose::of(&owned.value);
        // Such a question is answered without giving the name up, so the next one may be another.
        let since = if asks == Some(AskPurpose::IfFree) { owned.written } else { owned.made };
        let (known, asked) = self.asked.entry(owned.key.clone()).or_insert((0, Uptime::now()));
        if *known != since || asks.is_none() {
            (*known, *asked) = (since, Uptime::now());
        }
        *asked
    }

    /// Forgets owners that were asked long ago: by now each has answered, or its lease has ended.
    pub(super) fn forget_asked(&mut self) {
        let long = 2 * self.options.time_to_live;
        self.asked.retain(|_, (_, asked)| asked.elapsed() < long);
    }
}
