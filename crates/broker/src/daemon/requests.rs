//! The requests of one client, pending and granted.

mod alarm;
mod entry;
mod events;
mod map_slots;
mod place;

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use navlock_core::{
    LockFuture, LockGuard, LockManager, LockOptions, Lost, ResourceName, host::RequestKind,
};
use navlock_engine::{FencingToken, RequestId};
use navlock_wire::{Agent, Moment};

pub(super) use self::entry::{RequestOwner, Shown};
use self::{
    alarm::{Alarm, Woken},
    entry::{Entry, Stage, goes_on},
    place::SlotPlace,
};
use super::{circles::InCircle, lookers::Lookers, outcome::Outcome};
use crate::{LOGS, clock};

/// Futures by id, each of which ends at once when its id is [finished](Self::finish): what a
/// client asks for after a release must find the lock free.
#[derive(Default)]
pub(super) struct Requests {
    /// FAST: the client picks the ids, and could pick some that a hash of no secrets has collide; to
    /// slow down a table of its own is all that this would do.
    ///
    /// Each has a place, so that they can be gone through with pauses; see [`changes`](Self::changes).
    entries: IndexMap<RequestId, Entry, RandomState>,
    /// The bytes of all their names.
    name_bytes: usize,
    /// What became of claims.
    settled: VecDeque<(RequestId, Outcome)>,
    /// Those that wait, and were said to be made inside a lock. Some may be over.
    nested: Vec<RequestId>,
    /// Those that wait for others that wait for them, and are to be told so.
    circles: VecDeque<(RequestId, InCircle)>,
    woken: Arc<Woken>,
    /// Whose they are, for the log, and whether it may tell names.
    pid: Option<u32>,
    log_names: bool,
    /// They are held for a time, which may have ended before anybody says so.
    is_leased: bool,
    /// Who is told what happens to them.
    lookers: Arc<Lookers>,
}

impl Requests {
    /// None yet, of which these will be told.
    pub(super) fn new(lookers: Arc<Lookers>, is_leased: bool) -> Self {
        Self { is_leased, lookers, ..Self::default() }
    }

    /// Whose they are, for the log.
    pub(super) fn log_as(&mut self, pid: Option<u32>) {
        self.pid = pid;
    }

    /// Whether the log may tell names where it does not otherwise.
    pub(super) fn log_names(&mut self, log_names: bool) {
        self.log_names = log_names;
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

    /// All of them, in no order.
    pub(super) fn shown(&self) -> impl Iterator<Item = (RequestId, Shown<'_>)> {
        self.entries.iter().filter_map(|(id, entry)| Some((*id, entry.shown()?)))
    }

    /// How many are held, and how many pending.
    pub(super) fn count(&self) -> (usize, usize) {
        let granted = self.entries.values().filter(|entry| entry.is_held());
        let (granted, idle) = granted.fold((0, 0), |(granted, idle), entry| {
            (granted + 1, idle + usize::from(entry.is_idle()))
        });
        (granted - idle, self.entries.len() - granted)
    }

    /// Makes a request, now: its place in the queue is that of this call.
    pub(super) fn request(
        &mut self,
        id: RequestId,
        of: &Arc<RequestOwner>,
        locks: &LockManager,
        name: ResourceName,
        kind: RequestKind,
    ) -> Option<Outcome> {
        let name_bytes = length(&name);
        self.lookers.counts().request();
        let alarm = self.alarm(id);
        let waker = Waker::from(Arc::clone(&alarm));
        let mut context = Context::from_waker(&waker);
        // FAST: most locks are free. The future of one that is not is kept, without a box.
        let mut request = locks.lock_with(name, options(kind)).into_future();
        let answer = Pin::new(&mut request).poll(&mut context);
        let (place, since) = (SlotPlace::Nowhere, clock::now());
        let (of, stage) = (Arc::clone(of), Stage::Over);
        let mut entry = Entry {
            place,
            of,
            inside: Vec::new(),
            may_give_up: false,
            name_bytes,
            since,
            stage,
            alarm,
        };
        let outcome = match answer {
            Poll::Ready(answer) => Some(entry.answered(answer, &context)),
            Poll::Pending => {
                entry.stage = request.detach().map_or(Stage::Over, Stage::Pending);
                None
            }
        };
        if let Some(outcome) = &outcome {
            self.lookers.counts().outcome(outcome, 0);
        }
        if goes_on(outcome.as_ref()) {
            self.name_bytes += name_bytes as usize;
            self.entries.insert(id, entry);
        }
        outcome
    }

    /// Goes on with a request that was made to an earlier daemon.
    pub(super) fn go_on(
        &mut self,
        id: RequestId,
        of: &Arc<RequestOwner>,
        since: Moment,
        request: LockFuture<'static, Option<LockGuard>>,
    ) {
        let name_bytes = request.pending().map_or(0, |(name, _)| length(name));
        self.enter(id, of, since, name_bytes, Stage::Pending(request));
    }

    /// Goes on with a lock that was granted by an earlier daemon.
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
        // Once is enough.
        if self.contains(id) {
            return;
        }
        let counts = self.lookers.counts();
        counts.request();
        if matches!(stage, Stage::Held(..)) {
            counts.grant(0);
        }
        let alarm = self.alarm(id);
        // It is asked when the session comes to it, and from then on rings by itself.
        alarm.wake_by_ref();
        self.name_bytes += name_bytes as usize;
        let (place, of) = (SlotPlace::Nowhere, Arc::clone(of));
        let entry = Entry {
            place,
            of,
            inside: Vec::new(),
            may_give_up: false,
            name_bytes,
            since,
            stage,
            alarm,
        };
        self.entries.insert(id, entry);
        self.tell(id);
    }

    fn alarm(&self, id: RequestId) -> Arc<Alarm> {
        let woken = Arc::clone(&self.woken);
        Arc::new(Alarm { id, ringing: AtomicBool::new(false), woken })
    }

    /// Whose it is.
    pub(super) fn agent_of(&self, id: RequestId) -> Option<Agent> {
        self.entries.get(&id).map(|entry| entry.of.agent)
    }

    /// Has a request that was made to an earlier daemon show what it showed there.
    pub(super) fn date_back(&mut self, id: RequestId, since: Moment, token: Option<FencingToken>) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.since = since;
            if let (Stage::Held(_, shown), Some(token)) = (&mut entry.stage, token) {
                *shown = token;
            }
        }
    }

    /// Notes what became of a claim, for [`poll_outcome`](Self::poll_outcome).
    pub(super) fn settle(&mut self, id: RequestId, outcome: Outcome) {
        if let Outcome::Lost(how, _) = outcome {
            self.lookers.counts().outcome(&outcome, 0);
            tracing::info!(target: LOGS, pid = self.pid, ?how, "a lock that is claimed is lost");
        }
        self.settled.push_back((id, outcome));
    }

    /// Has the session look what there is.
    pub(super) fn wake(&self) {
        self.woken.session.wake();
    }

    /// Aborts the request or releases the lock, whichever it is, if it still is.
    pub(super) fn finish(&mut self, id: RequestId) {
        if let Some(entry) = self.remove(id) {
            self.count_end(&entry);
            self.tell_finished(id, &entry);
        }
    }

    /// All end with their agents.
    pub(super) fn count_as_finished(&self) {
        self.entries.values().for_each(|entry| self.count_end(entry));
    }

    /// Counts what a client ends. A lock that is lost by the clock is given up by the client's own, which may be the
    /// first to tell, and is no release.
    fn count_end(&self, entry: &Entry) {
        let counts = self.lookers.counts();
        // FAST: what is not leased is not lost by a clock.
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
        Some(entry)
    }

    /// Finishes all but those that are held and wanted.
    pub(super) fn keep_held(&mut self, wanted: impl Fn(RequestId) -> bool) {
        let unwanted = self.entries.iter().filter(|(id, entry)| !wanted(**id) || !entry.is_held());
        for id in unwanted.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.finish(id);
        }
    }

    /// Ready whenever there is an outcome that nobody asked for.
    pub(super) fn poll_outcome(&mut self, context: &Context<'_>) -> Poll<(RequestId, Outcome)> {
        if let Some(settled) = self.settled.pop_front() {
            return Poll::Ready(settled);
        }
        self.woken.session.register(context.waker());
        loop {
            let Some(id) = self.woken.ids().pop_front() else {
                return Poll::Pending;
            };
            // Finished in the meantime, if it is not there.
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            // Before it is asked: what happens from here on rings again.
            entry.alarm.ringing.store(false, Ordering::SeqCst);
            // What has failed does not know it any more.
            let name = self.lookers.are_there().then(|| entry.name().cloned()).flatten();
            let asked = entry.since;
            let outcome = entry.poll();
            if let Some(outcome) = &outcome {
                self.lookers.counts().outcome(outcome, entry.since.saturating_sub(asked));
            }
            if let Some(Outcome::Lost(how, _)) = &outcome {
                entry.tell_loss(*how, self.pid, self.log_names);
            }
            if let (Some(Outcome::Lost(Lost::Stolen, _)), SlotPlace::In(delegation)) =
                (&outcome, &entry.place)
            {
                delegation.steal();
            }
            if goes_on(outcome.as_ref()) {
                if outcome.is_some() {
                    self.tell(id);
                }
            } else if let Some(entry) = self.remove(id) {
                self.tell_over(id, &entry, name.as_ref(), outcome.as_ref());
            }
            if let Some(outcome) = outcome {
                return Poll::Ready((id, outcome));
            }
        }
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").field("len", &self.len()).finish_non_exhaustive()
    }
}

fn length(name: &ResourceName) -> u32 {
    // A frame, and so a name, is much shorter than this can tell.
    u32::try_from(name.as_bytes().len()).unwrap_or(u32::MAX)
}

/// The options that ask for this.
fn options(kind: RequestKind) -> LockOptions {
    LockOptions {
        mode: kind.mode(),
        if_available: matches!(kind, RequestKind::IfAvailable(_)),
        steal: matches!(kind, RequestKind::Steal),
        ..LockOptions::default()
    }
}
