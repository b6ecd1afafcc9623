//! The reference model: the specification's algorithms, written to be read and not to be fast.

use std::{collections::BTreeMap, mem};

use navlock_engine::{
    AgentId, EntryRef, Event, FencingToken, Mode, RequestId, RequestKind, ResourceName, Status,
};

/// A lock manager made of lists and linear scans, with one function for each algorithm.
///
/// The model uses the engine's types and none of its algorithms. It makes no ids: the caller gives
/// each request its id, so that both can be asked about the same request. An id that is not pending
/// cannot be aborted, and an id that is not held cannot be released. Both calls then do nothing,
/// because the specification never makes them.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The held locks, in the order of their grants.
    held: Vec<Lock>,
    /// The queues of all names that were ever used, because the specification keeps them, too.
    queue_map: BTreeMap<ResourceName, Vec<Request>>,
    events: Vec<Event>,
    requests_made: u64,
    locks_granted: u64,
}

#[derive(Clone, Debug)]
struct Request {
    id: RequestId,
    agent: AgentId,
    name: ResourceName,
    mode: Mode,
    /// How many requests were made before this one.
    number: u64,
}

#[derive(Clone, Debug)]
struct Lock {
    id: RequestId,
    agent: AgentId,
    name: ResourceName,
    mode: Mode,
    token: FencingToken,
}

impl Model {
    /// "Request a lock": <https://w3c.github.io/web-locks/#algorithm-request-lock>
    pub fn request_lock(
        &mut self,
        id: RequestId,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
    ) {
        // 1. The request.
        let request = Request {
            id,
            agent,
            name: name.clone(),
            mode: kind.mode(),
            number: self.requests_made,
        };
        self.requests_made += 1;
        // 2. HOST: the signal.
        // 3.1–3.3 The queue and the held locks are looked up where they are used.
        match kind {
            RequestKind::Steal => {
                // 3.4.1 Each lock of the name
                for lock in self.held.clone() {
                    if lock.name == *name {
                        // 3.4.1.1.1 is taken out,
                        self.held.retain(|other| other.id != lock.id);
                        // 3.4.1.1.2 and its holder is told.
                        self.events.push(Event::Stolen(lock.id));
                    }
                }
                // 3.4.2 The front of the queue.
                self.get_lock_request_queue(name).insert(0, request);
            }
            // 3.5.1 An `ifAvailable` request that is not grantable now ends here.
            RequestKind::IfAvailable(_) if !self.is_grantable(&request) => {
                self.events.push(Event::Unavailable(id));
                return;
            }
            // 3.5.2 The back of the queue.
            RequestKind::IfAvailable(_) | RequestKind::Wait(_) => {
                self.get_lock_request_queue(name).push(request);
            }
        }
        // 3.6
        self.process_lock_request_queue(name);
        // 4. The caller has the request's id.
    }

    /// "Abort the request": <https://w3c.github.io/web-locks/#algorithm-abort-request>
    pub fn abort_request(&mut self, id: RequestId) {
        // 1–5. The request, its name and its queue.
        let Some(request) = self.pending().find(|request| request.id == id) else {
            return;
        };
        let name = request.name.clone();
        // 6.
        self.get_lock_request_queue(&name).retain(|request| request.id != id);
        // 7.
        self.process_lock_request_queue(&name);
    }

    /// "Release the lock": <https://w3c.github.io/web-locks/#algorithm-release-lock>
    pub fn release_lock(&mut self, id: RequestId) {
        // 1–5. The lock and its name.
        let Some(lock) = self.held.iter().find(|lock| lock.id == id) else {
            return;
        };
        let name = lock.name.clone();
        // 6.
        self.held.retain(|lock| lock.id != id);
        // 7.
        self.process_lock_request_queue(&name);
    }

    /// Aborts the request or releases the lock, whichever the id is. Not in the specification.
    pub fn finish(&mut self, id: RequestId) {
        match self.status(id) {
            Status::Pending => self.abort_request(id),
            Status::Held(_) => self.release_lock(id),
            Status::Gone => {}
        }
    }

    /// "Terminate remaining locks and requests", in the order that the engine promises: everything
    /// that the agents have ends before anything is granted.
    ///
    /// <https://w3c.github.io/web-locks/#termination-of-locks>
    pub fn terminate_remaining_locks_and_requests(&mut self, agents: &[AgentId]) {
        let mut shortened = Vec::new();
        // 1. Its requests are aborted, but no queue is processed yet.
        for request in agents.iter().flat_map(|agent| self.requests_of(*agent)).collect::<Vec<_>>()
        {
            self.get_lock_request_queue(&request.name).retain(|other| other.id != request.id);
            self.events.push(Event::Terminated(request.id));
            shortened.push(request.name);
        }
        // 2. Its locks are released, but no queue is processed yet.
        for lock in agents.iter().flat_map(|agent| self.locks_of(*agent)).collect::<Vec<_>>() {
            self.held.retain(|other| other.id != lock.id);
            self.events.push(Event::Terminated(lock.id));
            shortened.push(lock.name);
        }
        // Now the queues are processed. If a queue is processed twice, the second time grants
        // nothing.
        for name in shortened {
            self.process_lock_request_queue(&name);
        }
    }

    /// "Terminate remaining locks and requests" to the letter: one after the other, each request is
    /// aborted and each lock is released by the whole of its own algorithm.
    ///
    /// This reports no end of a request or lock, because the algorithms do not. On the way, a lock
    /// may be granted to an ending agent, and is then released.
    ///
    /// <https://w3c.github.io/web-locks/#termination-of-locks>
    pub fn terminate_step_by_step(&mut self, agents: &[AgentId]) {
        for agent in agents {
            // 1. A request that has become a lock in the meantime is one for step 2.
            for request in self.requests_of(*agent) {
                // 1.1
                self.abort_request(request.id);
            }
            // 2.
            for lock in self.locks_of(*agent) {
                // 2.1
                self.release_lock(lock.id);
            }
        }
    }

    /// "Snapshot the lock state": <https://w3c.github.io/web-locks/#algorithm-snapshot-state>
    pub fn snapshot_lock_state(&self) -> impl Iterator<Item = EntryRef<'_>> {
        // 4–5. Every lock of the held lock set.
        let held = self.held.iter().map(|lock| EntryRef {
            name: &lock.name,
            mode: lock.mode,
            agent: lock.agent,
            id: lock.id,
            is_held: true,
        });
        // 2–3. Every request of every queue.
        held.chain(self.pending().map(|request| EntryRef {
            name: &request.name,
            mode: request.mode,
            agent: request.agent,
            id: request.id,
            is_held: false,
        }))
    }

    /// The status of the request with this id. Not in the specification.
    pub fn status(&self, id: RequestId) -> Status {
        if self.pending().any(|request| request.id == id) {
            Status::Pending
        } else if let Some(lock) = self.held.iter().find(|lock| lock.id == id) {
            Status::Held(lock.token)
        } else {
            Status::Gone
        }
    }

    /// Whether there is no request and no lock. Not in the specification.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.pending().next().is_none()
    }

    /// The token that the next grant gets. Not in the specification.
    pub fn next_token(&self) -> FencingToken {
        FencingToken::new(self.locks_granted + 1)
    }

    /// All events since the last call of this function, oldest first.
    pub fn take_events(&mut self) -> Vec<Event> {
        mem::take(&mut self.events)
    }

    /// "Process the lock request queue":
    /// <https://w3c.github.io/web-locks/#algorithm-process-request>
    fn process_lock_request_queue(&mut self, name: &ResourceName) {
        // 2. Each request of the queue, until
        for request in self.get_lock_request_queue(name).clone() {
            // 2.1 one has to wait,
            if !self.is_grantable(&request) {
                return;
            }
            // 2.2 leaves the queue,
            self.get_lock_request_queue(name).retain(|other| other.id != request.id);
            // 2.3–2.12 becomes a lock,
            let token = self.next_token();
            self.locks_granted += 1;
            let lock = Lock {
                id: request.id,
                agent: request.agent,
                name: request.name,
                mode: request.mode,
                token,
            };
            // 2.13 is held
            self.held.push(lock);
            // 2.14 and is handed to its callback, by the host.
            self.events.push(Event::Granted(request.id));
        }
    }

    /// "Grantable": <https://w3c.github.io/web-locks/#concept-lock-request>
    fn is_grantable(&mut self, request: &Request) -> bool {
        // 1–6. The request's queue, and the held locks of its name.
        let queue = self.get_lock_request_queue(&request.name);
        // 7. Somebody else is first.
        if queue.first().is_some_and(|first| first.id != request.id) {
            return false;
        }
        let mut held = self.held.iter().filter(|lock| lock.name == request.name);
        match request.mode {
            // 8.
            Mode::Exclusive => held.next().is_none(),
            // 9.
            Mode::Shared => !held.any(|lock| lock.mode == Mode::Exclusive),
        }
    }

    /// "Get the lock request queue": <https://w3c.github.io/web-locks/#concept-lock-request>
    fn get_lock_request_queue(&mut self, name: &ResourceName) -> &mut Vec<Request> {
        // 1–2.
        self.queue_map.entry(name.clone()).or_default()
    }

    /// Every request of every queue.
    fn pending(&self) -> impl Iterator<Item = &Request> {
        self.queue_map.values().flatten()
    }

    /// The agent's requests, in the order in which they were made.
    fn requests_of(&self, agent: AgentId) -> Vec<Request> {
        let mut requests: Vec<_> =
            self.pending().filter(|request| request.agent == agent).cloned().collect();
        requests.sort_by_key(|request| request.number);
        requests
    }

    /// The agent's locks, in the order in which they were granted.
    fn locks_of(&self, agent: AgentId) -> Vec<Lock> {
        self.held.iter().filter(|lock| lock.agent == agent).cloned().collect()
    }
}
