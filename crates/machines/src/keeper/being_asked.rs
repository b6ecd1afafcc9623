//! What others ask this connection for: names, by its mailbox, and what only it knows of the names that it owns.

use std::time::Duration;

use navlock_core::Lost;
use navlock_engine::RequestId;

use super::{Call, Keeper, OpenedBucket, giving_up::entry_of, owner_part::OwnerPart, wake};
use crate::{
    clock::Uptime,
    data::{Check, Step, Transaction},
    keys::{BucketKeys, NameKey, RequestKey},
    table::{State, Status},
    transactions::{AskPurpose, say_who},
    view::Ownership,
};

/// How many bytes of names, locks and requests an answer has: etcd takes 1.5 MiB in one request.
const ROOM: usize = 1 << 20;

impl Keeper {
    /// The prefix of the mailbox of this connection.
    pub(crate) fn mailbox(&self) -> Vec<u8> {
        BucketKeys::mailbox(&self.options.namespace, self.slots.me())
    }

    /// Takes in what the mailbox of this connection has: the owner keys of the names that others want, of
    /// which none is granted here from now on; and what its thieves have noted.
    ///
    /// A thief counts the term from the moment at which it has seen the question. The renewal with which the
    /// question is read first may have been sent after that, and the one before it was sent earlier.
    pub(super) fn heed_mailbox(&mut self, found: &[Vec<u8>]) {
        let lease = self.good_lease().and_then(|own| self.leases.get(own.id));
        let term = lease.map(|lease| self.options.times.term(lease.renewal));
        for key in found {
            let parsed = |(&bucket, opened): (&u64, &OpenedBucket)| {
                Some((bucket, opened.bucket.keys.parse(key)?.name))
            };
            let of = self.buckets.iter().find_map(parsed);
            let own = of.as_ref().map(|(bucket, name)| self.own_state(*bucket, name));
            let own = own.unwrap_or_default();
            let Some((bucket, name)) = of.filter(|_| own != Ownership::No) else {
                self.clear(key);
                continue;
            };
            if let Some(view) = self.view_mut(bucket, &name) {
                view.deadline = view.deadline.or(term);
            }
            self.limit(bucket, &name);
            // A name that is ours and we have not heard of that is given up as soon as we do.
            if matches!(own, Ownership::Since(_)) && !self.is_stray(bucket, &name) {
                self.note_wanted(bucket, &name);
                self.leave(bucket, &name);
            }
        }
    }

    /// The names that this connection owns in a bucket, or this one if it does, in the order of names.
    pub(super) fn owned_names(&self, bucket: u64, of: Option<&NameKey>) -> Vec<(NameKey, i64)> {
        let Some(opened) = self.buckets.get(&bucket) else { return Vec::new() };
        let views = &opened.bucket.views;
        let one = of.and_then(|name| views.get_key_value(name));
        let all = views.iter().filter(|_| of.is_none());
        let owned = one.into_iter().chain(all).filter_map(|(name, view)| match view.own {
            Ownership::Since(made) => Some((name.clone(), made)),
            _ => None,
        });
        let mut owned: Vec<_> = owned.collect();
        owned.sort_unstable();
        owned
    }

    /// What only this connection knows now of these names, for a question of this revision: of the first
    /// names, as many as there is room for.
    pub(super) fn own_part(
        &self,
        bucket: u64,
        names: Vec<(NameKey, i64)>,
        asked: i64,
        mut room: usize,
    ) -> OwnerPart {
        let (owner, revision) = (self.slots.me(), self.history.revision());
        let mut part = OwnerPart { owner, asked, revision, ..OwnerPart::default() };
        let (Some(lease), false) = (self.leases.own(), names.is_empty()) else { return part };
        part.lease = lease;
        // No request has such a slot.
        let key = |id: RequestId| RequestKey { owner, slot: u64::MAX - id.serial() };
        let table = self.shared.table();
        let live = table.live(bucket).filter(|request| request.owner == owner);
        part.live.extend(live.map(|request| request.slot));
        let here = names.into_iter().map(|(name, made)| {
            let of = (bucket, name);
            let here = table.here(&of, key);
            (of.1, made, here)
        });
        let here: Vec<_> = here.collect();
        // Whoever locks waits for the table. So the entries are encoded without it.
        drop(table);
        for (name, made, here) in here {
            let entries = here.into_iter().enumerate().filter_map(|(nth, leaver)| {
                let agent = self.leases.agents.get(&leaver.agent)?;
                Some(entry_of(agent, (nth, leaver), made, lease))
            });
            let entries: Vec<_> = entries.collect();
            let bytes: usize = entries.iter().map(|entry| entry.ask.value.len() + 48).sum();
            match room.checked_sub(bytes + name.to_ref().0.len() + 16) {
                Some(rest) => room = rest,
                None => break,
            }
            part.names.insert(name, (made, entries));
        }
        part
    }

    /// Says who holds a name that this connection owns and who waits for it or, if that is asked, of all names
    /// of the bucket, from this one on. Nothing changes here by that.
    pub(super) fn show(&mut self, bucket: u64, name: &NameKey) {
        let me = self.slots.me();
        let Some(owned) = self.view(bucket, name).and_then(|view| view.mirror.owned(me)) else {
            return;
        };
        let (is_of_all, written) =
            (AskPurpose::of(&owned.value) == Some(AskPurpose::ToSeeAll), owned.written);
        // An answer may be long. It is on its way, or was refused.
        let pause = self.options.times.time_to_live / 3;
        let is_answered =
            |(question, since): (i64, Uptime)| question == written && since.elapsed() < pause;
        if self.view(bucket, name).and_then(|view| view.said).is_some_and(is_answered) {
            return;
        }
        let mut names = self.owned_names(bucket, Some(name).filter(|_| !is_of_all));
        let before = names.partition_point(|(other, _)| other < name);
        names.rotate_left(before);
        let count = names.len();
        let mut part = self.own_part(bucket, names, owned.written, ROOM);
        part.is_whole = is_of_all && part.names.len() == count;
        let said = postcard::to_extend(&part, Vec::new()).ok().filter(|_| !part.names.is_empty());
        let keys = self.buckets.get(&bucket).map(|opened| opened.bucket.keys.name(name));
        match (said, keys) {
            (Some(said), Some(keys)) => {
                let transaction = say_who(&keys.owned(me), owned, &said);
                self.calls.push_back(Call::Write { transaction });
                if let Some(view) = self.view_mut(bucket, name) {
                    view.said = Some((written, Uptime::now()));
                }
            }
            // There is no room for the name in an answer.
            _ => self.give_up(bucket, name),
        }
    }

    /// Notes by when the locks of a name that others have asked for are lost, unless the store has them by then.
    pub(super) fn limit(&mut self, bucket: u64, name: &NameKey) {
        if let Some(deadline) = self.view(bucket, name).and_then(|view| view.deadline) {
            self.shared.table().limit(&(bucket, name.clone()), deadline.ends);
        }
    }

    /// Ends the locks of the names that others have asked for and that could not be given up in time: the store may
    /// answer the renewals of a lease, and not the write by which a name is given up.
    ///
    /// That write may still be done, late. So the locks have their keys until the work under them has ended.
    pub(super) fn check_deadlines(&mut self) {
        let mut late = Vec::new();
        for (&bucket, opened) in &self.buckets {
            let views = opened.bucket.views.iter().filter(|(_, view)| view.is_late());
            late.extend(views.map(|(name, view)| (bucket, name.clone(), view.is_ending())));
        }
        for (bucket, name, is_ending) in late {
            if matches!(self.own_state(bucket, &name), Ownership::Since(_)) {
                // The store refuses that write. Nobody is granted the name here.
                self.lose_name(bucket, &name, Lost::Disconnected);
            }
            let mut wakers = Vec::new();
            let mut table = self.shared.table();
            for (id, ..) in table.of_name(bucket, &name) {
                match table.state(id) {
                    Some((State::Held(_, watchers), true)) if is_ending => {
                        wakers.append(watchers);
                    }
                    Some((_, true)) => wakers.extend(table.lose(id, Lost::Disconnected)),
                    _ => {}
                }
            }
            drop(table);
            wake(wakers);
            let view = self.view_mut(bucket, &name).filter(|view| view.own == Ownership::No);
            if let Some(view) = view.filter(|_| !is_ending) {
                view.deadline = None;
                self.look(bucket, &name, Duration::ZERO);
            }
        }
    }

    /// Removes a key of the mailbox that is of no use any more.
    fn clear(&mut self, of: &[u8]) {
        let when = match self.thief(of) {
            // The question is about an earlier ownership, if the owner key has gone.
            None => vec![Check::Absent(of.to_vec())],
            Some(thief) if self.is_answered(thief) => Vec::new(),
            // A try that was not answered must find that it was done, and may come late.
            Some(_) => return,
        };
        let key = [&*self.mailbox(), of].concat();
        let transaction = Transaction { when, then: vec![Step::Delete(key)], or_else: Vec::new() };
        self.calls.push_back(Call::Write { transaction });
    }

    /// Whether this connection has heard of everything that its tries have done for this request.
    fn is_answered(&self, request: RequestKey) -> bool {
        let id = self.slots.holder(request);
        let is_pending = |id| matches!(self.shared.table().status(id), Status::Pending(_));
        self.slots.is_certain(request) && !id.is_some_and(is_pending)
    }

    /// The thief that has noted this.
    fn thief(&self, note: &[u8]) -> Option<RequestKey> {
        let slash = note.iter().rposition(|&byte| byte == b'/')?;
        let lock = &note[..slash];
        let (_, keys) = BucketKeys::around(&self.options.namespace, lock)?;
        keys.parse(lock).map(|key| key.request)
    }
}
