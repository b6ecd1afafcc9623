//! What others ask this connection for by its mailbox.

use super::{Call, Keeper, OpenedBucket};
use crate::{
    data::{Check, Step, Transaction},
    keys::{BucketKeys, RequestKey},
    table::Status,
    view::Ownership,
};

impl Keeper {
    /// The prefix of the mailbox of this connection.
    pub(crate) fn mailbox(&self) -> Vec<u8> {
        BucketKeys::mailbox(&self.options.namespace, self.slots.me())
    }

    /// Takes in what the mailbox of this connection has: the owner keys of the names that others want, of
    /// which none is granted here from now on; and what its thieves have noted.
    pub(super) fn heed_mailbox(&mut self, found: &[Vec<u8>]) {
        for key in found {
            let parsed = |(&bucket, opened): (&u64, &OpenedBucket)| {
                Some((bucket, opened.bucket.keys.parse(key)?.name))
            };
            let of = self.buckets.iter().find_map(parsed);
            let state = of.as_ref().map(|(bucket, name)| self.own_state(*bucket, name));
            match (state.unwrap_or_default(), of) {
                (Ownership::Since(_), Some((bucket, name))) if !self.is_stray(bucket, &name) => {
                    self.note_wanted(bucket, &name);
                    self.leave(bucket, &name);
                }
                (Ownership::No, _) => self.clear(key),
                // Etcd has given us the name, and we have not heard of that. It is given up as soon as we do.
                (Ownership::Asked(_), Some((bucket, name))) => {
                    if let Some(view) = self.view_mut(bucket, &name) {
                        view.is_wanted = true;
                    }
                }
                // The answer is on its way.
                _ => {}
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
