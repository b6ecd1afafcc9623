//! Items that only hosts need. Hosts are programs that speak for the agents of others, such as a
//! daemon or an addon, and crates that bring a reach. A program that wants to lock something needs
//! nothing of this module.
//!
//! A reach is a [`Reach`] whose buckets are [`Backend`]s; [`UserAgent::with_reach`] takes it.
//!
//! [`UserAgent::with_reach`]: crate::UserAgent::with_reach

use std::task::{Context, Poll};

pub use navlock_engine::{AgentId, RequestId, RequestKind};

use crate::{
    Bucket, ClientId, Error, LockFuture, LockGuard, LockManager, NestedRequest, UserAgent,
    agent::Agent, agent_state::Ended, inside::Polling, look::LockId, sync::Arc,
};
pub use crate::{
    backend::{
        Answer, Backend, Claim, EvictFuture, Eviction, InspectFuture, Looking, MemoryBackend,
        MemoryReach, PositionFuture, QueryFuture, Reach, ReclaimFuture, RequestDetails,
        RevokeFuture, Term, Ticket,
    },
    clip::{clip_bytes, clip_chars},
    elapsed::{elapsed, milliseconds, seconds},
    further::{Further, LockRef, NameRef, Unheard},
    guard::PolledGuard,
    json::Object,
    look::{
        journal::Journal,
        lines::{Line, Lines},
        waits::{is_interpreter, process, program},
    },
    printable::{is_harmless, printable},
    waking::wake_all,
};

/// A handle of a new agent in the bucket, with a client id by which it is already known elsewhere.
///
/// ```
/// # use navlock::{ClientId, UserAgent, host};
/// let bucket = UserAgent::new().bucket("app");
/// let client_id = ClientId::random();
/// let locks = host::lock_manager_as(&bucket, client_id);
/// assert_eq!(locks.client_id(), client_id);
/// ```
pub fn lock_manager_as(bucket: &Bucket, client_id: ClientId) -> LockManager {
    bucket.lock_manager_as(client_id)
}

/// Polls a request for whoever holds `locks` and waits for the request: if it has to wait, it is made
/// [inside](crate::LockRequest::inside) them. This is for a host that knows what its tasks hold, while the tasks
/// themselves are no futures.
///
/// ```
/// # use navlock::{Error, UserAgent, host::poll_inside};
/// # use std::{future::{Future, IntoFuture}, pin::pin, task::{Context, Poll, Waker}};
/// # let context = &mut Context::from_waker(Waker::noop());
/// let locks = UserAgent::new().fail_on_deadlock().lock_manager("app");
/// let guard = locks.lock("db").blocking()?;
/// let mut again = pin!(locks.lock("db").into_future());
/// let polled = poll_inside(|| vec![guard.id()], || again.as_mut().poll(context));
/// assert!(polled.is_pending());
/// assert!(matches!(again.poll(context), Poll::Ready(Err(Error::Deadlock(_)))));
/// # Ok::<(), Error>(())
/// ```
pub fn poll_inside<T>(locks: impl Fn() -> Vec<LockId>, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
    let polling = Polling::begin();
    let polled = poll();
    if polled.is_pending() {
        polling.waits(|put| locks().into_iter().for_each(put));
    }
    polled
}

/// Ends the agents of these handles at once, as [`LockManager::terminate`] ends a single one: no
/// lock is granted to one of them because another one ends.
///
/// This is for a host that speaks for a client with several agents, and learns that the client is
/// gone.
///
/// ```
/// # use navlock::{Error, UserAgent, host};
/// let user_agent = UserAgent::new();
/// let agents = [(); 2].map(|()| user_agent.lock_manager("app"));
/// let guard = agents[0].lock("db").blocking()?;
/// host::terminate_all(&agents);
/// assert!(guard.is_lost());
/// assert_eq!(agents[1].lock("db").blocking().unwrap_err(), Error::Terminated);
/// # Ok::<(), Error>(())
/// ```
pub fn terminate_all<'a>(handles: impl IntoIterator<Item = &'a LockManager>) {
    let agents: Vec<_> = handles.into_iter().filter_map(LockManager::agent).collect();
    Agent::end_all(&agents, Ended::Terminated);
}

/// Whether the agent of this handle may make requests now: the checks that come before those of a
/// name.
///
/// This is for an interface that has checks of its own between these checks and the request.
///
/// ```
/// # use navlock::{Error, UserAgent, host};
/// let locks = UserAgent::new().lock_manager("app");
/// assert_eq!(host::check_environment(&locks), Ok(()));
/// locks.set_fully_active(false);
/// assert_eq!(host::check_environment(&locks), Err(Error::NotFullyActive));
/// ```
///
/// Spec: <https://w3c.github.io/web-locks/#api-lock-manager-request>, steps 3 and 4.
///
/// # Errors
///
/// In this order: [`Error::NotFullyActive`], [`Error::Terminated`] or [`Error::Closed`];
/// [`Error::Unobtainable`].
pub fn check_environment(locks: &LockManager) -> Result<(), Error> {
    locks.environment().obtain_lock_manager().map(drop)
}

/// Ready once the agent of this handle has ended, for whatever reason, with the error of its later
/// requests. Only the last context that was given is woken.
///
/// This is for a host that has to notice the end even if the agent has no locks and requests.
///
/// ```
/// # use std::task::{Context, Poll, Waker};
/// # use navlock::{Error, UserAgent, host};
/// let user_agent = UserAgent::new();
/// let locks = user_agent.lock_manager("app");
/// let context = Context::from_waker(Waker::noop());
/// assert_eq!(host::poll_ended(&locks, &context), Poll::Pending);
/// user_agent.close();
/// assert_eq!(host::poll_ended(&locks, &context), Poll::Ready(Error::Closed));
/// ```
pub fn poll_ended(locks: &LockManager, context: &Context<'_>) -> Poll<Error> {
    locks.agent().map_or(Poll::Pending, |agent| agent.state().poll_ended(context))
}

/// Takes over the locks and requests that this agent had through another process, which has ended,
/// in a reach that [is leased](crate::UserAgent::is_leased). Returns, for each claim, a future like
/// that of its request, or `None` if the lock or request is not there any more. The claims are in
/// the order of their requests; what is not claimed is released. To be called before the agent's
/// first request.
///
/// # Errors
///
/// As [`LockManager::query`].
///
/// # Cancel safety
///
/// Dropping the future releases and aborts what it has found.
pub async fn reclaim(
    locks: &LockManager,
    claims: Vec<Claim>,
) -> Result<Vec<Option<LockFuture<'static, Option<LockGuard>>>>, Error> {
    let refs = locks.environment().obtain_lock_manager()?;
    let asked: Vec<_> =
        claims.iter().map(|claim| (claim.name.clone(), claim.kind.mode())).collect();
    let found = refs.agent.backend().reclaim(refs.agent.id, claims).await;
    let made = found.into_iter().zip(asked).map(|(ticket, (name, mode))| {
        let ticket = ticket?;
        Some(LockFuture::made(name, mode, ticket, Arc::clone(refs.here())))
    });
    Ok(made.collect())
}

/// Gives a request the serial number that it has already, for a host that makes it for the agent of another process:
/// see [`RequestDetails::serial`].
pub fn with_serial<G, N>(request: NestedRequest<'_, G, N>, serial: u64) -> NestedRequest<'_, G, N> {
    request.with_serial(serial)
}

/// What keeps the locks of the agent of this handle, and the agent's id there.
///
/// ```
/// # use navlock::{FencingToken, UserAgent, host};
/// let locks = UserAgent::new().lock_manager("app");
/// let (backend, _) = host::backend(&locks)?;
/// assert!(backend.raise_tokens(FencingToken::new(1000)));
/// assert_eq!(locks.lock("db").blocking()?.fencing_token(), FencingToken::new(1000));
/// # Ok::<(), navlock::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Unobtainable`] if there is no lock manager for the bucket.
pub fn backend(locks: &LockManager) -> Result<(&dyn Backend, AgentId), Error> {
    let agent = locks.agent().ok_or(Error::Unobtainable)?;
    Ok((&**agent.backend(), agent.id))
}

/// The reach of a user agent.
pub fn reach(user_agent: &UserAgent) -> &dyn Reach {
    user_agent.reach()
}

/// Whether this user agent has been [closed](UserAgent::close).
pub fn is_closed(user_agent: &UserAgent) -> bool {
    user_agent.is_closed()
}
