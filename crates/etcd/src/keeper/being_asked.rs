//! What others ask this connection for by its mailbox.

use std::time::Duration;

use navlock_core::Lost;

use super::{Call, Keeper, OpenedBucket, wake};
use crate::{
    data::{Check, Step, Transaction},
    keys::{BucketKeys, NameKey, RequestKey},
    table::{State, Status},
    view::Ownership,
};

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
        let lease = self.good_lease().and_then(|own| self.leases.get(&own.id));
        let term = lease.map(|lease| self.options.term(lease.renewal));
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

    /// Notes by when the locks of a name that others have asked for are lost, unless etcd has them by then.
    pub(super) fn limit(&mut self, bucket: u64, name: &NameKey) {
        if let Some(deadline) = self.view(bucket, name).and_then(|view| view.deadline) {
            self.shared.table().limit(&(bucket, name.clone()), deadline.ends);
        }
    }

    /// Ends the locks of the names that others have asked for and that could not be given up in time: etcd may
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
                // Etcd refuses that write. Nobody is granted the name here.
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
