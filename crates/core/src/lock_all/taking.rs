//! How the locks of several names are taken: all of them one after the other, or the one that is free first.

use std::{
    mem,
    sync::Arc as StdArc,
    task::{Context, Poll, Waker},
    vec,
};

use navlock_engine::{Mode, ResourceName};

use super::error::LockAllError;
use crate::{
    Error, LockFuture, LockGuard, LockOptions, LockRequest,
    backend::RequestDetails,
    environment::Environment,
    holding::Held,
    request::Nesting,
    sync::Arc,
    watch::{Place, Watch},
};

/// A request for the next lock says inside which locks it is. It names the locks that were taken last, at
/// most this many. To name all of them would take quadratic time.
const MOST_INSIDE: usize = 64;

/// One of the names.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) name: ResourceName,
    /// `None` if the mode of the whole request applies to this name.
    pub(super) mode: Option<Mode>,
}

/// What is asked for.
#[derive(Debug)]
pub(super) struct Ask {
    /// The names, sorted, each once.
    pub(super) names: Result<Vec<Wanted>, LockAllError>,
    pub(super) how: How,
}

/// How the locks are asked for.
#[derive(Debug)]
pub(super) struct How {
    pub(super) options: LockOptions,
    pub(super) fails_on_deadlock: bool,
    /// What the locks are for.
    pub(super) why: String,
    /// Whether one of the names is enough. Then they are in the order in which they were given.
    pub(super) is_any: bool,
}

impl How {
    fn details(&self) -> RequestDetails<'_> {
        RequestDetails { why: &self.why, serial: None }
    }
}

/// The state while the locks are taken, one after the other.
pub(super) struct Taking {
    /// The request for the lock that is waited for; where one lock is enough, a request for each.
    pub(super) pending: Vec<(ResourceName, LockFuture<'static, Option<LockGuard>>)>,
    left: vec::IntoIter<Wanted>,
    pub(super) guards: Vec<LockGuard>,
    /// How many of these guards call this when their lock is lost, and where it has our waker.
    watched: usize,
    losses: StdArc<Watch>,
    place: Option<Place>,
    environment: Arc<Environment>,
    how: How,
    /// Where one lock is enough, the first name whose lock was not available.
    unavailable: Option<ResourceName>,
}

/// The lock of this name cannot be had at once.
pub(super) struct Unavailable(pub(super) ResourceName);

impl Taking {
    pub(super) fn new(environment: Arc<Environment>, ask: Ask) -> Result<Self, LockAllError> {
        let Ask { names, mut how } = ask;
        // These checks come before those of the names.
        environment.obtain_lock_manager()?;
        let (left, options) = (names?, &mut how.options);
        // All options are checked before the first lock is taken, because a request that is refused
        // must not have stolen anything.
        if left.is_empty() {
            options.kind()?;
            if how.is_any {
                return Err(Error::refused("no names were given, of which one could be had").into());
            }
        }
        for Wanted { name, mode } in &left {
            let checked = LockOptions { mode: mode.unwrap_or(options.mode), ..*options }.kind();
            checked.map_err(|error| LockAllError::of(name, error))?;
        }
        // A request that waits for any of several names gives each of the others up by itself.
        options.signal |= how.is_any && !options.steal && !options.if_available;
        let guards = Vec::with_capacity(left.len());
        let (pending, left) = (Vec::new(), left.into_iter());
        let (watched, losses, place) = (0, StdArc::default(), None);
        let unavailable = None;
        Ok(Self { pending, left, guards, watched, losses, place, environment, how, unavailable })
    }

    /// Ready with all guards, or with the name of a lock that cannot be had at once. Not to be called
    /// again after it was ready.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Result<Vec<LockGuard>, Unavailable>, LockAllError>> {
        if self.how.is_any {
            return self.poll_any(context);
        }
        loop {
            let Some((name, request)) = self.pending.first_mut() else {
                let Some(wanted) = self.left.next() else { break };
                let request = self.ask(wanted);
                self.pending.push(request);
                continue;
            };
            // FAST: only a request that has to wait needs to say inside which locks it was made.
            let nesting = || Nesting {
                inside: self.guards.iter().rev().take(MOST_INSIDE).map(LockGuard::id).collect(),
                fails_on_deadlock: self.how.fails_on_deadlock,
                ..Nesting::default()
            };
            let answer = match request.poll_nested(context, self.how.details(), nesting) {
                Poll::Ready(answer) => answer,
                // After a loss there is no use in waiting for more locks, because all of them would
                // be released.
                Poll::Pending => return self.poll_lost(context).map(Err),
            };
            match answer {
                Ok(Some(guard)) => self.guards.push(guard),
                Ok(None) => return Poll::Ready(Ok(Err(Unavailable(name.clone())))),
                Err(error) => return Poll::Ready(Err(LockAllError::of(name, error))),
            }
            self.pending.clear();
        }
        // The first lock may have been lost while the last one was waited for.
        let guards = mem::take(&mut self.guards);
        Poll::Ready(match guards.lost() {
            Some(lost) => Err(lost),
            None => Ok(Ok(guards)),
        })
    }

    /// Ready once one of the locks that were taken is lost.
    fn poll_lost(&mut self, context: &Context<'_>) -> Poll<LockAllError> {
        let place = self.losses.enter(self.place, context.waker());
        // FAST: a guard is asked once, and again when a loss was told. To ask all of them for each name that is
        // waited for would take quadratic time.
        if self.place.replace(place) != Some(place) {
            self.watched = 0;
        }
        let waker = Waker::from(StdArc::clone(&self.losses));
        let new = &self.guards[mem::replace(&mut self.watched, self.guards.len())..];
        poll_lost(new, &Context::from_waker(&waker))
    }

    /// Ready with one guard, or with the name of a lock that cannot be had at once, if none can.
    fn poll_any(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Result<Vec<LockGuard>, Unavailable>, LockAllError>> {
        let mut at = 0;
        loop {
            let Some((name, request)) = self.pending.get_mut(at) else {
                // A name is requested only if none before it is free.
                let Some(wanted) = self.left.next() else { break };
                let request = self.ask(wanted);
                self.pending.push(request);
                continue;
            };
            match request.poll_nested(context, self.how.details(), Nesting::default) {
                // The others leave their queues with this. One that was granted meanwhile is given back.
                Poll::Ready(Ok(Some(guard))) => return Poll::Ready(Ok(Ok(vec![guard]))),
                Poll::Ready(Ok(None)) => {
                    self.unavailable.get_or_insert_with(|| name.clone());
                    drop(self.pending.remove(at));
                }
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(LockAllError::of(name, error)));
                }
                // What does not wait takes no lock that it does not need, though its answer may take a while.
                Poll::Pending if self.how.options.steal || self.how.options.if_available => {
                    return Poll::Pending;
                }
                Poll::Pending => at += 1,
            }
        }
        match self.unavailable.take_if(|_| self.pending.is_empty()) {
            Some(name) => Poll::Ready(Ok(Err(Unavailable(name)))),
            None => Poll::Pending,
        }
    }

    /// The request for the next name.
    fn ask(&self, wanted: Wanted) -> (ResourceName, LockFuture<'static, Option<LockGuard>>) {
        let Wanted { name, mode } = wanted;
        let options =
            LockOptions { mode: mode.unwrap_or(self.how.options.mode), ..self.how.options };
        let request = LockRequest::new(&self.environment, name.clone(), options);
        (name, request.into_owned())
    }
}

/// Ready once one of these locks is lost. All guards are asked, so that each one knows whom to wake.
pub(super) fn poll_lost(guards: &[LockGuard], context: &Context<'_>) -> Poll<LockAllError> {
    guards.iter().fold(Poll::Pending, |any, guard| match Held::poll_lost(guard, context) {
        Poll::Ready(lost) => Poll::Ready(LockAllError::of(guard.name(), lost.into())),
        Poll::Pending => any,
    })
}
