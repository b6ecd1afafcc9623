//! Asking another connection to give up a name that it owns, and how long to wait for its answer.

use super::{
    Call, Keeper, Operated,
    messages::OwnerAsked,
    ownership::{AGAIN, AskedOwner, QUERY_TIMEOUT},
};
use crate::{
    clock::Uptime,
    data::KeyValue,
    table::Status,
    transactions::{Ask, AskPurpose, Force, Operation, Outcome, Outcomes, Owning, ask_owner},
};
use navlock_core::Mode;
use std::time::Duration;

/// The longest pause between two looks of a thief at the name of an owner that does not answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a request waits in the queue before its owner is asked by the mailbox. An owner whose
/// watch works has given the name up by then.
const PATIENCE: Duration = Duration::from_secs(1);

impl Keeper {
    /// Whether a request has found that another connection owns the name, in a case where the owner
    /// may not need the name, or has to cease to grant it. If so, this asks the owner to give up
    /// the name, and the request is made again in a moment.
    pub(super) fn asks_owner(&mut self, of: &Operated, outcomes: &Outcomes) -> bool {
        if !matches!(of.operation, Operation::IfAvailable(_) | Operation::Steal(..)) {
            return false;
        }
        let mut table = self.shared.table();
        let mut waits = of.operation.own().into_iter().filter_map(|key| self.slots.holder(key));
        if !waits.any(|id| matches!(table.status(id), Status::Pending(_))) {
            return false;
        }
        drop(table);
        let asked = of.asked.unwrap_or(OwnerAsked { begun: Uptime::now(), seen: i64::MAX });
        let is_refused = outcomes.requests.iter().any(|&(_, of)| of == Outcome::Unavailable);
        let next = match (&of.operation, outcomes.owner.clone()) {
            (Operation::Steal(ask, force), owned) if is_refused => {
                Some(self.force(of, ask, force, asked, owned))
            }
            (Operation::IfAvailable(asks), Some(owned)) => {
                let mode = asks.first().map_or(Mode::Exclusive, |ask| ask.mode);
                self.look_again(of, mode, asked, &owned)
            }
            _ => None,
        };
        let Some((operation, asked, delay)) = next else { return false };
        if let (Operation::Steal(..), Some(opened)) = (&operation, self.buckets.get_mut(&of.bucket))
        {
            opened.bucket.note_theft(&of.name);
            self.step(of.bucket, &of.name);
        }
        let of = Operated { operation, asked: Some(asked), ..of.clone() };
        if delay.is_zero() {
            self.try_again(of);
        } else {
            self.calls.push_back(Call::Pause { of, delay });
        }
        true
    }

    /// The next try of requests of this mode that do not wait, of a name that another connection owns. `None`
    /// if the name is not to be had.
    fn look_again(
        &mut self,
        of: &Operated,
        mode: Mode,
        OwnerAsked { begun, seen }: OwnerAsked,
        owned: &KeyValue,
    ) -> Option<(Operation, OwnerAsked, Duration)> {
        if Owning::is_for_run(&owned.value) || !self.can_be_asked(of.bucket, owned) {
            return None;
        }
        let asks = AskPurpose::of(&owned.value);
        // The owner has taken a mark back that was put after the key was seen here without one: an
        // agent there holds the name. A key that has never had a mark is another ownership. If agents
        // there share the name, somebody else has asked for it alone.
        let keeps_out = AskPurpose::is_refused(&owned.value, mode);
        if asks.is_none() && owned.written > seen.max(owned.made) && keeps_out {
            return None;
        }
        let seen = if asks.is_none() { owned.written } else { seen };
        let (timeout, asked) = (self.owner_timeout(), self.note_asked(owned).seen);
        // The store may refuse to write the mark that asks the owner.
        if asked.elapsed() >= timeout || begun.elapsed() >= timeout {
            return None;
        }
        // An answer to an earlier question of another request may be older than this request.
        let is_anew = of.asked.is_none() && matches!(asks, Some(AskPurpose::IfFree(_)));
        let purpose = AskPurpose::IfFree(mode);
        let says_more = purpose.says_more(owned);
        if says_more || is_anew {
            let purpose = asks.filter(|_| !says_more).unwrap_or(purpose);
            let transaction = ask_owner(owned, purpose);
            self.calls.push_back(Call::Write { transaction });
        }
        // The request is made ever more rarely while the owner does not answer.
        let rest = timeout.saturating_sub(asked.elapsed());
        let delay = AGAIN.max((begun.elapsed() / 4).min(rest));
        Some((of.operation.clone(), OwnerAsked { begun, seen }, delay))
    }

    /// The next try of a theft that has found this owner, or none any more.
    ///
    /// The owner is robbed when it has no right to grant the name any more: one term after it was seen
    /// here that the question stands in the store. The last renewal of its lease that the owner's reading of
    /// its mailbox has followed without finding the question was sent before that. The work under the
    /// owner's locks has ended by then as well, because the margin is a part of the term.
    fn force(
        &mut self,
        of: &Operated,
        ask: &Ask,
        force: &Force,
        asked: OwnerAsked,
        owned: Option<Box<KeyValue>>,
    ) -> (Operation, OwnerAsked, Duration) {
        let (next, delay) = match owned {
            None => (Force::Waits, Duration::ZERO),
            Some(owned) if !self.can_be_asked(of.bucket, &owned) => {
                (Force::Robs(owned), Duration::ZERO)
            }
            Some(owned) if AskPurpose::ToHave.says_more(&owned) => {
                let is_first = !matches!(force, Force::Asks(_));
                (Force::Asks(owned), if is_first { Duration::ZERO } else { AGAIN })
            }
            Some(owned) => {
                let AskedOwner { seen, lasts, .. } = self.note_asked(&owned);
                let rest = lasts.saturating_sub(seen.elapsed());
                if rest.is_zero() {
                    (Force::Robs(owned), Duration::ZERO)
                } else {
                    let pause = (asked.begun.elapsed() / 4).min(rest).min(LONGEST_PAUSE);
                    (Force::Waits, AGAIN.max(pause))
                }
            }
        };
        (Operation::Steal(ask.clone(), next), asked, delay)
    }

    /// Whether the connection of this owner key can be asked for the name.
    ///
    /// A connection does not ask itself: nothing else is done about the name meanwhile, so it could
    /// not give its own name up. An owner key without a lease was written by no connection, so no
    /// connection gives it up.
    fn can_be_asked(&self, bucket: u64, owned: &KeyValue) -> bool {
        let keys = self.buckets.get(&bucket).map(|opened| &opened.bucket.keys);
        let key = keys.and_then(|keys| keys.parse(&owned.key));
        owned.lease != 0 && key.is_some_and(|key| key.request.owner != self.slots.me())
    }

    /// How long to wait for an owner that was asked to give up a name. A query waits twice as long.
    pub(super) fn owner_timeout(&self) -> Duration {
        self.options.times.time_to_live.min(QUERY_TIMEOUT) / 2
    }

    /// Since when the owner that this key names is known to have been asked what is asked there. So
    /// the next request does not start to wait anew for an owner that does not answer.
    pub(super) fn note_asked(&mut self, owned: &KeyValue) -> AskedOwner {
        let question = AskPurpose::of(&owned.value).map(|_| owned.written);
        let lasts = Owning::lasts(&owned.value).unwrap_or(self.options.times.time_to_live);
        let now = AskedOwner { question, seen: Uptime::now(), lasts };
        let known = self.asked.entry(owned.key.clone()).or_insert(now);
        if known.question != question || question.is_none() {
            *known = now;
        }
        *known
    }

    /// Forgets owners that were asked long ago: by now each has answered, or its lease has ended.
    pub(super) fn forget_asked(&mut self) {
        let own = self.options.times.time_to_live;
        self.asked.retain(|_, asked| asked.seen.elapsed() < 4 * own.max(asked.lasts));
    }

    /// Asks the owners for which requests of this connection wait, by their mailboxes. An owner hears of
    /// a request in the queue by its watch, unless the watch hangs.
    pub(super) fn ask_deaf_owners(&mut self, bucket: u64) {
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        let keys = &opened.bucket.keys;
        let table = self.shared.table();
        for (name, view) in &mut opened.bucket.views {
            let Some(entry) = view.mirror.owner().filter(|of| of.request.owner != self.slots.me())
            else {
                continue;
            };
            let key = keys.name(name).owned(entry.request.owner);
            let owned = entry.to_key_value(key);
            // A run ends by itself.
            let may_be_asked = owned.lease != 0 && !Owning::is_for_run(&owned.value);
            if !may_be_asked || !AskPurpose::ToHave.says_more(&owned) {
                continue;
            }
            let waits = table.waits_since(bucket, name);
            if waits.is_some_and(|since| since.elapsed() >= PATIENCE)
                && view.may_ask(owned.written, self.options.times.time_to_live)
            {
                let transaction = ask_owner(&owned, AskPurpose::ToHave);
                self.calls.push_back(Call::Write { transaction });
            }
        }
    }
}
