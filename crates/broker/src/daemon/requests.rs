//! The requests of one client, pending and granted.

mod by_name;
mod entry;
mod events;
mod map_place;
mod map_slots;
mod request_waker;
mod whys;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Wake, Waker},
};

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use navlock_core::{
    LockFuture, LockGuard, LockManager, Lost, ResourceName,
    host::{self, RequestKind},
    look::LockId,
};
use navlock_engine::{FencingToken, Patience, RequestId};
use navlock_wire::{Agent, Moment};

pub(super) use self::entry::{RequestOwner, Shown};
use self::{
    by_name::ByName,
    entry::{Entry, Stage, goes_on},
    map_place::MapPlace,
    request_waker::{RequestWaker, Woken},
};
use super::{cycles::InCycle, lookers::Lookers, outcome::Outcome};
use crate::{LOGS, clock, sync::lock};

/// The requests by id. Each ends at once when its id is [finished](Self::finish), because a request
/// that a client makes after a release must find the lock free.
#[derive(Default)]
pub(super) struct Requests {
    /// FAST: the hash is not keyed. The client picks the ids and could make them collide, but this
    /// would slow down only the client's own table.
    ///
    /// Each entry has a place, so that lookers can go through the entries with pauses; see
    /// [`changes_at`](Self::changes_at).
    entries: IndexMap<RequestId, Entry, RandomState>,
    by_name: ByName,
    /// How many bytes the names of all these requests have, with what their locks are for.
    name_bytes: usize,
    /// What locks are for, as far as their requests say so.
    whys: HashMap<RequestId, Arc<str>, RandomState>,
    /// The outcomes of claims that the client was not told yet.
    settled: VecDeque<(RequestId, Outcome)>,
    /// The locks inside which requests were made, as far as the client has said so.
    insides: HashMap<RequestId, Vec<LockId>, RandomState>,
    /// The waiting requests that were said to be made inside a lock. Some of them may be over.
    nested: Vec<RequestId>,
    /// The requests in deadlocks of which the client has to be told.
    cycles: VecDeque<(RequestId, InCycle)>,
    woken: Arc<Woken>,
    /// The client's process, for the log, and whether the log may tell names.
    pub(super) pid: Option<u32>,
    pub(super) log_names: bool,
    /// Whether locks are held for a limited time, which may end before anybody says so.
    is_leased: bool,
    /// The lookers, who are told what happens to the requests.
    lookers: Arc<Lookers>,
}

impl Requests {
    /// Makes an empty table. These lookers will be told of its requests.
    pub(super) fn new(lookers: Arc<Lookers>, is_leased: bool) -> Self {
        Self { is_leased, lookers, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn name_bytes(&self) -> usize {
        self.name_bytes
    }

    pub(super) fn contains(&self, id: RequestId) -> bool {
        self.entries.contains_key(&id)
    }

    /// All requests and locks, in no order.
    pub(super) fn shown(&self) -> impl Iterator<Item = (RequestId, Shown<'_>)> {
        self.entries.iter().filter_map(|(id, entry)| Some((*id, entry.shown()?)))
    }

    /// All requests and locks, or those of this name in any bucket. In no order.
    pub(super) fn ids(&mut self, name: Option<&ResourceName>) -> Vec<RequestId> {
        match name {
            Some(name) => self.by_name.ids(&self.entries, name),
            None => self.entries.keys().copied().collect(),
        }
    }

    /// How many locks are held, and how many requests are pending.
    pub(super) fn count(&self) -> (usize, usize) {
        let granted = self.entries.values().filter(|entry| entry.is_held());
        let (granted, idle) = granted.fold((0, 0), |(granted, idle), entry| {
            (granted + 1, idle + usize::from(entry.is_idle()))
        });
        (granted - idle, self.entries.len() - granted)
    }

    /// Makes a request, whose place in the queue is that of this call. Returns the outcome if there
    /// is one at once.
    pub(super) fn request(
        &mut self,
        id: RequestId,
        of: &Arc<RequestOwner>,
        locks: &LockManager,
        name: ResourceName,
        kind: RequestKind,
    ) -> Option<Outcome> {
        let name_bytes = length(&name);
        self.lookers.counts.request();
        let request_waker = RequestWaker::new(id, &self.woken);
        let waker = Waker::from(Arc::clone(&request_waker));
        let mut context = Context::from_waker(&waker);
        // FAST: most locks are free. Only if a lock is not, the future of its request is kept.
        let request = locks.lock_with(name, kind.into());
        let mut request = match self.whys.get(&id) {
            None if !self.is_leased => request.into_future(),
            why => {
                let request = request.why(why.map_or("", |why| &**why));
                host::with_serial(request, id.serial()).into_future()
            }
        };
        let answer = Pin::new(&mut request).poll(&mut context);
        let (place, since) = (MapPlace::Nowhere, clock::now());
        let (of, stage) = (Arc::clone(of), Stage::Over);
        let mut entry = Entry {
            place,
            of,
            patience: Patience::Endless,
            name_bytes,
            since,
            stage,
            waker: request_waker,
        };
        let outcome = match answer {
            Poll::Ready(answer) => Some(entry.answered(answer, &context)),
            Poll::Pending => {
                entry.stage =
                    request.detach().map_or(Stage::Over, |request| Stage::Pending(request.into()));
                None
            }
        };
        if let Some(outcome) = &outcome {
            self.lookers.counts.outcome(outcome, 0);
        }
        if goes_on(outcome.as_ref()) {
            self.name_bytes += name_bytes as usize;
            self.by_name.enter(id, &entry);
            self.entries.insert(id, entry);
        } else {
            self.forget_why(id);
        }
        outcome
    }

    /// Takes over a request that was made to an earlier daemon.
    pub(super) fn go_on(
        &mut self,
        id: RequestId,
        of: &Arc<RequestOwner>,
        since: Moment,
        request: LockFuture<'static, Option<LockGuard>>,
    ) {
        let name_bytes = request.pending().map_or(0, |(name, _)| length(name));
        self.enter(id, of, since, name_bytes, Stage::Pending(request.into()));
    }

    /// Takes over a lock that an earlier daemon has granted.
    pub(super) fn hold(
        &mut self,
        id: RequestId,
        of: &Arc<RequestOwner>,
        since: Moment,
        guard: LockGuard,
    ) {
        let (name_bytes, token) = (length(guard.name()), guard.fencing_token());
        self.enter(id, of, since, name_bytes, Stage::Held(guard.into_polled(), token));
    }

    fn enter(
        &mut self,
        id: RequestId,
        of: &Arc<RequestOwner>,
        since: Moment,
        name_bytes: u32,
        stage: Stage,
    ) {
        // The client has claimed it twice, and it must be taken over only once.
        if self.contains(id) {
            return;
        }
        let counts = &self.lookers.counts;
        counts.request();
        if matches!(stage, Stage::Held(..)) {
            counts.grant(0);
        }
        let waker = RequestWaker::new(id, &self.woken);
        // The session polls the request once because of this. After that, the request wakes the session
        // itself.
        waker.wake_by_ref();
        self.name_bytes += name_bytes as usize;
        let (place, of) = (MapPlace::Nowhere, Arc::clone(of));
        let entry =
            Entry { place, of, patience: Patience::Endless, name_bytes, since, stage, waker };
        self.by_name.enter(id, &entry);
        self.entries.insert(id, entry);
        self.tell(id);
    }

    /// The agent of a request.
    pub(super) fn agent_of(&self, id: RequestId) -> Option<Agent> {
        self.entries.get(&id).map(|entry| entry.of.agent)
    }

    /// Gives a request that was made to an earlier daemon the time and token that it showed there.
    pub(super) fn date_back(&mut self, id: RequestId, since: Moment, token: Option<FencingToken>) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.since = since;
            if let (Stage::Held(_, shown), Some(token)) = (&mut entry.stage, token) {
                *shown = token;
            }
        }
    }

    /// Notes the outcome of a claim, for [`poll_outcome`](Self::poll_outcome).
    pub(super) fn settle(&mut self, id: RequestId, outcome: Outcome) {
        if let Outcome::Lost(how, _) = outcome {
            self.lookers.counts.outcome(&outcome, 0);
            tracing::info!(target: LOGS, pid = self.pid, ?how, "a lock that is claimed is lost");
        }
        if !goes_on(Some(&outcome)) {
            self.forget_why(id);
        }
        self.settled.push_back((id, outcome));
    }

    /// Wakes the session.
    pub(super) fn wake(&self) {
        self.woken.session.wake();
    }

    /// Aborts the request, or releases the lock, if it is still here.
    pub(super) fn finish(&mut self, id: RequestId) {
        if let Some(entry) = self.remove(id) {
            self.count_end(&entry);
            self.tell_finished(id, &entry);
        }
    }

    /// Counts all requests and locks as ended, because their agents end.
    pub(super) fn count_as_finished(&self) {
        self.entries.values().for_each(|entry| self.count_end(entry));
    }

    /// Counts the end of a request or lock by its client. If the term of a lock is over, the client may
    /// notice that first, by its own clock. In that case the end is a loss, and no release.
    fn count_end(&self, entry: &Entry) {
        let counts = &self.lookers.counts;
        // FAST: only a leased lock can be lost by the clock.
        let lost = if self.is_leased { entry.unheard_loss() } else { None };
        if let Some(lost) = lost {
            counts.outcome(&Outcome::Lost(lost, None), 0);
        } else {
            let held = usize::from(entry.is_held());
            counts.finished(held, 1 - held);
        }
    }

    fn remove(&mut self, id: RequestId) -> Option<Entry> {
        let entry = self.entries.swap_remove(&id)?;
        self.name_bytes -= entry.name_bytes as usize;
        self.forget_why(id);
        self.insides.remove(&id);
        Some(entry)
    }

    /// Finishes all requests, and all locks that are not `wanted`.
    /// Returns those.
    pub(super) fn keep_held(&mut self, wanted: impl Fn(RequestId) -> bool) -> Vec<RequestId> {
        let unwanted = self.entries.iter().filter(|(id, entry)| !wanted(**id) || !entry.is_held());
        let unwanted: Vec<_> = unwanted.map(|(id, _)| *id).collect();
        for id in &unwanted {
            self.finish(*id);
        }
        unwanted
    }

    /// Returns the next outcome that the client is to be told, apart from those that requests
    /// return at once.
    pub(super) fn poll_outcome(&mut self, context: &Context<'_>) -> Poll<(RequestId, Outcome)> {
        if let Some(settled) = self.settled.pop_front() {
            return Poll::Ready(settled);
        }
        self.woken.session.register(context.waker());
        next_outcome(self).map_or(Poll::Pending, Poll::Ready)
    }

    /// Keeps the outcomes that there are for [`poll_outcome`](Self::poll_outcome), so that what has ended is not shown
    /// until the client is told.
    pub(super) fn settle_all(&mut self) {
        while let Some(outcome) = next_outcome(self) {
            self.settled.push_back(outcome);
        }
    }
}

/// The next outcome of a request that was woken.
fn next_outcome(requests: &mut Requests) -> Option<(RequestId, Outcome)> {
    loop {
        let id = lock(&requests.woken.ids).pop_front()?;
        // A request that is not here was finished in the meantime.
        let Some(entry) = requests.entries.get_mut(&id) else {
            continue;
        };
        // The flag is cleared before the poll, so that anything that happens from here on wakes the
        // session again.
        entry.waker.is_listed.store(false, Ordering::SeqCst);
        // A request that has failed does not know its name any more.
        let name = requests.lookers.are_there().then(|| entry.name().cloned()).flatten();
        let asked = entry.since;
        let outcome = entry.poll();
        if let Some(outcome) = &outcome {
            requests.lookers.counts.outcome(outcome, entry.since.saturating_sub(asked));
        }
        if let Some(Outcome::Lost(how, _)) = &outcome {
            entry.tell_loss(*how, requests.pid, requests.log_names);
        }
        if let (Some(Outcome::Lost(Lost::Stolen, _)), MapPlace::In(delegation)) =
            (&outcome, &entry.place)
        {
            delegation.steal();
        }
        if goes_on(outcome.as_ref()) {
            if outcome.is_some() {
                requests.tell(id);
            }
        } else if let Some(entry) = requests.remove(id) {
            requests.tell_over(id, &entry, name.as_ref(), outcome.as_ref());
        }
        if let Some(outcome) = outcome {
            return Some((id, outcome));
        }
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").field("len", &self.len()).finish_non_exhaustive()
    }
}

fn length(name: &ResourceName) -> u32 {
    // A frame, and so a name, is much shorter than 4 GiB.
    u32::try_from(name.as_bytes().len()).unwrap_or(u32::MAX)
}
