//! The locks inside which requests of the table were made, for the search for cycles of waiters.

use std::mem;

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
    /// Notes that a waiting request was made inside this lock, which is held.
    pub fn put_inside(&mut self, id: RequestId, lock: LockId) -> Nested {
        if let Some(outer) = self.outer(lock) {
            return self.put_outer(id, outer);
        }
        let Some(hidden) = self.hidden(lock) else { return Nested::default() };
        let Some(request) = self.find(id) else { return Nested::default() };
        if !matches!(request.state, State::Pending(_)) {
            return Nested::default();
        }
        let here = request.is_here.then(|| request.of.clone());
        if !request.inside_hidden.contains(&lock) && request.inside_hidden.len() < MOST_INSIDE {
            request.inside_hidden.push(lock);
            self.inside_hidden.push(id);
        }
        Nested { said: None, hidden: here.into_iter().chain([hidden]).collect() }
    }

    /// Notes that a waiting request was made inside a lock of which this is the reference.
    fn put_outer(&mut self, id: RequestId, outer: Outer) -> Nested {
        let Some(request) = self.find(id) else { return Nested::default() };
        if !matches!(request.state, State::Pending(_)) {
            return Nested::default();
        }
        let here = request.is_here.then(|| request.of.clone());
        let inside = &mut request.said.inside;
        let is_news = inside.len() < MOST_INSIDE && !inside.contains(&outer);
        if is_news {
            inside.push(outer);
        }
        let said = if is_news { self.agent_of(id) } else { None };
        Nested { said, hidden: here.into_iter().collect() }
    }

    /// Notes how long a waiting request waits. Returns its agent, if that is news.
    pub fn note_patience(&mut self, id: RequestId, patience: Patience) -> Option<AgentSerial> {
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
        let known = self.requests.get(*self.serials.get(&lock.serial)?)?;
        let is_hidden = matches!(known.state, State::Held(grant, _) if grant.made == i64::MAX);
        is_hidden.then(|| known.of.clone())
    }

    /// To be called when others have learned of locks that they did not know. Returns the agents
    /// whose keys have to say more because of this.
    pub fn say_where(&mut self) -> Vec<AgentSerial> {
        let mut news = Vec::new();
        for id in mem::take(&mut self.inside_hidden) {
            let Some(request) = self.find(id) else { continue };
            for lock in mem::take(&mut request.inside_hidden) {
                news.extend(self.put_inside(id, lock).said);
            }
        }
        news
    }

    /// The reference by which others know a held lock.
    fn outer(&self, lock: LockId) -> Option<Outer> {
        let known = self.requests.get(*self.serials.get(&lock.serial)?)?;
        let agent = self.agents.get(known.agent?.index())?;
        let whose = agent.lease.map(|share| share.client_id);
        let (State::Held(grant, _), Some(request)) = (&known.state, known.key) else { return None };
        let mut buckets = self.buckets.iter();
        let (bucket, _) = buckets.find(|(_, open)| open.number == known.of.0)?;
        // Before the lock is written, nobody else knows of it.
        let made = Some(grant.made).filter(|made| *made < i64::MAX)?;
        let is_its = whose == Some(lock.client_id) && bucket.len() <= LONGEST_BUCKET;
        let name = known.of.1.clone();
        is_its.then(|| Outer { bucket: bucket.clone(), name, request, made })
    }
}
