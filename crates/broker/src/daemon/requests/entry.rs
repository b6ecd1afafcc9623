//! One request of a client, pending or granted.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use navlock_core::{
    ClientId, Error, LockFuture, LockGuard, Lost, Mode, ResourceName, host::PolledGuard,
};
use navlock_engine::{FencingToken, Patience};
use navlock_wire::{Agent, Moment};
use tracing::Level;

use super::{
    super::{delegations::Delegation, outcome::Outcome},
    map_place::MapPlace,
    request_waker::RequestWaker,
};
use crate::{LOGS, clock};

/// The agent of a request, and its bucket.
#[derive(Debug)]
pub(in super::super) struct RequestOwner {
    pub(in super::super) agent: Agent,
    pub(in super::super) client_id: ClientId,
    pub(in super::super) bucket: Arc<str>,
}

pub(super) struct Entry {
    /// This field stands before `stage`, so that it is dropped first: before the lock is released, the
    /// client can neither hold it in the slot nor take it any more.
    pub(super) place: MapPlace,
    pub(super) of: Arc<RequestOwner>,
    /// How long the request waits.
    pub(super) patience: Patience,
    /// For how many bytes the request's name counts.
    pub(super) name_bytes: u32,
    /// When the request was made or, for a lock, granted.
    pub(super) since: Moment,
    pub(super) stage: Stage,
    pub(super) waker: Arc<RequestWaker>,
}

/// The state of the request, with its name and mode.
pub(super) enum Stage {
    /// In a box, so that it takes no room in the entries of locks, which are many and stay.
    Pending(Box<LockFuture<'static, Option<LockGuard>>>),
    /// The lock is held. This has its guard, and the token that is shown.
    Held(PolledGuard, FencingToken),
    /// The request was answered, and is about to be forgotten.
    Over,
}

/// What is shown of a request when somebody inspects the bucket.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Shown<'a> {
    pub(in super::super) agent: Agent,
    pub(in super::super) name: &'a ResourceName,
    pub(in super::super) mode: Mode,
    /// When the request was made or, for a lock, granted.
    pub(in super::super) since: Moment,
    /// The token, if it is a lock.
    pub(in super::super) token: Option<FencingToken>,
    /// The slot in which the client can release the lock and take it again without a message.
    pub(in super::super) delegation: Option<&'a Delegation>,
}

impl Entry {
    /// Whether the engine counts this as a held lock.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Held(..))
    }

    /// How the lock was lost, if it was lost and the client has not been told yet.
    pub(super) fn unheard_loss(&self) -> Option<Lost> {
        let Stage::Held(guard, _) = &self.stage else { return None };
        match guard.poll_lost(&Context::from_waker(Waker::noop())) {
            Poll::Ready(lost) => Some(lost),
            Poll::Pending => None,
        }
    }

    pub(super) fn shown(&self) -> Option<Shown<'_>> {
        let (name, mode, token) = match &self.stage {
            Stage::Pending(request) => {
                let (name, mode) = request.pending()?;
                (name, mode, None)
            }
            Stage::Held(guard, token) => (guard.name(), guard.mode(), Some(*token)),
            Stage::Over => return None,
        };
        let delegation = match &self.place {
            MapPlace::In(delegation) => Some(&**delegation),
            _ => None,
        };
        Some(Shown { agent: self.of.agent, name, mode, since: self.since, token, delegation })
    }

    /// Logs that a lock is lost, with its name if the log may tell names.
    pub(super) fn tell_loss(&self, how: Lost, pid: Option<u32>, log_names: bool) {
        // The lock has ended with its agent, as when a program ends. So this is no loss.
        if matches!(how, Lost::Terminated | Lost::Closed) {
            return;
        }
        let is_named = log_names || tracing::enabled!(target: LOGS, Level::DEBUG);
        let named = self.shown().filter(|_| is_named).map(|shown| shown.name);
        let name = named.map(tracing::field::debug);
        tracing::info!(target: LOGS, pid, ?how, name, "a lock is lost");
    }

    pub(super) fn poll(&mut self) -> Option<Outcome> {
        let waker = Waker::from(Arc::clone(&self.waker));
        let mut context = Context::from_waker(&waker);
        match &mut self.stage {
            Stage::Pending(request) => match Pin::new(request).poll(&mut context) {
                Poll::Pending => None,
                Poll::Ready(answer) => {
                    self.since = clock::now();
                    Some(self.answered(answer, &context))
                }
            },
            Stage::Held(guard, _) => match guard.poll_lost(&context) {
                Poll::Pending => None,
                Poll::Ready(lost) => Some(Outcome::Lost(lost, guard.stolen_by())),
            },
            Stage::Over => None,
        }
    }

    /// Takes in the answer of the lock manager.
    pub(super) fn answered(
        &mut self,
        answer: Result<Option<LockGuard>, Error>,
        context: &Context<'_>,
    ) -> Outcome {
        match answer {
            Ok(None) => Outcome::Unavailable,
            Err(error) => Outcome::Failed(error),
            Ok(Some(guard)) => {
                let token = guard.fencing_token();
                let guard = guard.into_polled();
                if guard.poll_lost(context).is_ready() {
                    // The client is told of the grant first, and of the loss when the entry is
                    // polled again.
                    self.waker.wake_by_ref();
                }
                self.stage = Stage::Held(guard, token);
                Outcome::Granted(token, false)
            }
        }
    }
}

/// Whether anything can come after this outcome.
pub(super) fn goes_on(outcome: Option<&Outcome>) -> bool {
    matches!(outcome, None | Some(Outcome::Granted(..)))
}
