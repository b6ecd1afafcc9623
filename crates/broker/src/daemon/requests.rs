//! The requests of one session, pending and granted.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;
use navlock_core::{Error, LockGuard, LockManager, LockOptions, Lost, RequestKind, ResourceName};
use navlock_engine::{FencingToken, RequestId};

/// What became of a request, or of the lock that it was.
#[derive(Debug)]
pub(super) enum Outcome {
    Granted(FencingToken),
    Unavailable,
    Failed(Error),
    Lost(Lost),
}

/// Futures by id, each of which ends at once when its id is [finished](Self::finish): what a
/// client asks for after a release must find the lock free.
#[derive(Default)]
pub(super) struct Requests {
    entries: HashMap<RequestId, Entry>,
    /// The bytes of all their names.
    name_bytes: usize,
    woken: Arc<Woken>,
}

struct Entry {
    stage: Stage,
    name_bytes: usize,
    alarm: Arc<Alarm>,
}

enum Stage {
    Pending(Pin<Box<dyn Future<Output = Result<Option<LockGuard>, Error>> + Send>>),
    Held(LockGuard),
}

/// The ids of those that have something to say.
#[derive(Default)]
struct Woken {
    ids: Mutex<VecDeque<RequestId>>,
    session: AtomicWaker,
}

/// Wakes the session for one request.
struct Alarm {
    id: RequestId,
    /// Whether the id is in the list already.
    ringing: AtomicBool,
    woken: Arc<Woken>,
}

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn name_bytes(&self) -> usize {
        self.name_bytes
    }

    pub(super) fn contains(&self, id: RequestId) -> bool {
        self.entries.contains_key(&id)
    }

    /// Makes a request, now: its place in the queue is that of this call.
    pub(super) fn request(
        &mut self,
        id: RequestId,
        locks: LockManager,
        name: ResourceName,
        kind: RequestKind,
    ) -> Option<Outcome> {
        let name_bytes = name.as_bytes().len();
        let woken = Arc::clone(&self.woken);
        let alarm = Arc::new(Alarm { id, ringing: AtomicBool::new(false), woken });
        let request = async move { locks.lock_with(name, options(kind)).await };
        let mut entry = Entry { stage: Stage::Pending(Box::pin(request)), name_bytes, alarm };
        let outcome = entry.poll();
        if goes_on(outcome.as_ref()) {
            self.name_bytes += name_bytes;
            self.entries.insert(id, entry);
        }
        outcome
    }

    /// Aborts the request or releases the lock, whichever it is, if it still is.
    pub(super) fn finish(&mut self, id: RequestId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.name_bytes -= entry.name_bytes;
        }
    }

    /// Ready whenever there is an outcome that nobody asked for.
    pub(super) fn poll_outcome(&mut self, context: &Context<'_>) -> Poll<(RequestId, Outcome)> {
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
            let outcome = entry.poll();
            if !goes_on(outcome.as_ref()) {
                self.finish(id);
            }
            if let Some(outcome) = outcome {
                return Poll::Ready((id, outcome));
            }
        }
    }
}

impl Entry {
    fn poll(&mut self) -> Option<Outcome> {
        let waker = Waker::from(Arc::clone(&self.alarm));
        let mut context = Context::from_waker(&waker);
        match &mut self.stage {
            Stage::Pending(request) => match request.as_mut().poll(&mut context) {
                Poll::Pending => None,
                Poll::Ready(Ok(None)) => Some(Outcome::Unavailable),
                Poll::Ready(Err(error)) => Some(Outcome::Failed(error)),
                Poll::Ready(Ok(Some(guard))) => {
                    let token = guard.fencing_token();
                    if guard.poll_lost(&context).is_ready() {
                        // It is told of the grant first and of the loss when it is asked again.
                        self.alarm.wake_by_ref();
                    }
                    self.stage = Stage::Held(guard);
                    Some(Outcome::Granted(token))
                }
            },
            Stage::Held(guard) => match guard.poll_lost(&context) {
                Poll::Pending => None,
                Poll::Ready(lost) => Some(Outcome::Lost(lost)),
            },
        }
    }
}

/// Whether there is anything to come after this outcome.
fn goes_on(outcome: Option<&Outcome>) -> bool {
    matches!(outcome, None | Some(Outcome::Granted(_)))
}

impl Woken {
    fn ids(&self) -> MutexGuard<'_, VecDeque<RequestId>> {
        // Whole at any time: nothing in there can panic.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.ringing.swap(true, Ordering::SeqCst) {
            self.woken.ids().push_back(self.id);
            self.woken.session.wake();
        }
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").field("len", &self.len()).finish_non_exhaustive()
    }
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
