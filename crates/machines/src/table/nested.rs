//! The locks inside which requests of the table were made, for the search for cycles of waiters.

use navlock_core::look::{LockId, Patience};
use navlock_engine::RequestId;

use super::{
    Nested, Table,
    entries::{AgentSerial, State},
};
use crate::{
    names::NameKey,
    notes::{LONGEST_BUCKET, MOST_INSIDE, Outer},
};

impl Table {
    /// Notes that a waiting request was made inside this lock, if the lock is held here.
    pub(crate) fn put_inside(&mut self, id: RequestId, lock: LockId) -> Nested {
        // FAST: it is said again and again.
        let Some(request) = self.find(id) else { return Nested::default() };
        let inside = &request.said.inside;
        let is_known = inside.len() >= MOST_INSIDE || inside.iter().any(|known| known.lock == lock);
        if is_known || !matches!(request.state, State::Pending(_)) {
            return Nested::default();
        }
        let Some(outer) = self.outer(lock) else { return Nested::default() };
        let hidden = self.hidden(lock);
        let Some(request) = self.find(id) else { return Nested::default() };
        request.said.inside.push(outer);
        let here = request.is_here.then(|| request.of.clone());
        Nested { said: self.agent_of(id), hidden: here.into_iter().chain(hidden).collect() }
    }

    /// Notes how long a waiting request waits. Returns its agent, if that is news.
    pub(crate) fn note_patience(
        &mut self,
        id: RequestId,
        patience: Patience,
    ) -> Option<AgentSerial> {
        let request = self.find(id)?;
        if request.said.patience >= patience || !matches!(request.state, State::Pending(_)) {
            return None;
        }
        request.said.patience = patience;
        // If the request has no key yet, this is said when the request is written.
        request.key?;
        self.agent_of(id)
    }

    /// The name of a held lock, if others do not know of the lock yet.
    fn hidden(&self, lock: LockId) -> Option<(u64, NameKey)> {
        let known = &self.requests[*self.ids.get(&lock)?];
        let is_hidden = matches!(known.state, State::Held(grant, _) if grant.made == i64::MAX);
        is_hidden.then(|| known.of.clone())
    }

    /// What is said of a held lock where a request was made inside it.
    fn outer(&self, lock: LockId) -> Option<Outer> {
        let known = &self.requests[*self.ids.get(&lock)?];
        let State::Held(..) = known.state else { return None };
        let mut buckets = self.buckets.iter();
        let (bucket, _) = buckets.find(|(_, open)| open.number == known.of.0)?;
        let name = known.of.1.clone();
        (bucket.len() <= LONGEST_BUCKET).then(|| Outer { bucket: bucket.clone(), name, lock })
    }

    /// The number by which all machines know this request of its agent; 0 if it is forgotten.
    pub(crate) fn serial(&mut self, id: RequestId) -> u64 {
        self.find(id).map_or(0, |request| request.lock_serial)
    }
}
