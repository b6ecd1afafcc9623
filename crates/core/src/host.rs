//! What only hosts need: those that speak for the agents of others, as a daemon or an addon does,
//! and those that bring a reach. Nobody who wants to lock something does.
//!
//! A reach is a [`Reach`] whose buckets are [`Backend`]s; [`UserAgent::with_reach`] takes it.
//!
//! [`UserAgent::with_reach`]: crate::UserAgent::with_reach

use std::{
    task::{Context, Poll},
    time::Duration,
};

pub use navlock_engine::{AgentId, RequestId, RequestKind};

use crate::{
    Bucket, ClientId, Error, FencingToken, LockFuture, LockGuard, LockManager, Position,
    ResourceName, UserAgent, agent::Agent, agent_state::Ended, sync::Arc,
};
pub use crate::{
    backend::{
        Answer, Backend, Claim, EvictFuture, Eviction, InspectFuture, Looking, MemoryBackend,
        MemoryReach, PositionFuture, QueryFuture, Reach, RecallFuture, RevokeFuture, SightFuture,
        Term, Ticket,
    },
    guard::PolledGuard,
    json::Object,
    look::lines::{Line, Lines},
    sighting::{LockRef, NameRef, Sighted, Sighting, Unheard},
    waking::wake_all,
};

/// A handle of a new agent in the bucket that is already known elsewhere by this client id.
///
/// ```
/// # use navlock_core::{ClientId, UserAgent, host};
/// let bucket = UserAgent::new().bucket("app");
/// let client_id = ClientId::random();
/// let locks = host::lock_manager_as(&bucket, client_id);
/// assert_eq!(locks.client_id(), client_id);
/// ```
pub fn lock_manager_as(bucket: &Bucket, client_id: ClientId) -> LockManager {
    bucket.lock_manager_as(client_id)
}

/// Ends the agents of these handles as one, as [`LockManager::terminate`] ends a single one: nothing
/// is granted to one of them because another ends.
///
/// For a host that speaks for a client with several agents, and learns that the client is gone.
///
/// ```
/// # use navlock_core::{Error, UserAgent, host};
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

/// Whether the agent of this handle may ask for anything now: what is looked at before a name is.
///
/// For a face that has checks of its own between these and the request.
///
/// ```
/// # use navlock_core::{Error, UserAgent, host};
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

/// Ready once the agent of this handle has ended, however that came, with what it fails with from then
/// on. Of the contexts given here, the last one is woken.
///
/// For a host that has to hear of it also when the agent has nothing and waits for nothing.
///
/// ```
/// # use std::task::{Context, Poll, Waker};
/// # use navlock_core::{Error, UserAgent, host};
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

/// Goes on with what this agent had through another process, which has ended, in a reach that
/// [is leased](crate::UserAgent::is_leased). For each claim a future as that of its request was, or
/// `None` if it is not there any more. The claims are in the order of their requests; what is not
/// claimed is released. To be called before the agent asks for anything.
///
/// # Errors
///
/// As [`LockManager::query`].
///
/// # Cancel safety
///
/// Dropping the future releases and aborts what it has found.
pub async fn recall(
    locks: &LockManager,
    claims: Vec<Claim>,
) -> Result<Vec<Option<LockFuture<'static, Option<LockGuard>>>>, Error> {
    let refs = locks.environment().obtain_lock_manager()?;
    let asked: Vec<_> =
        claims.iter().map(|claim| (claim.name.clone(), claim.kind.mode())).collect();
    let found = refs.agent.backend().recall(refs.agent.id, claims).await;
    let made = found.into_iter().zip(asked).map(|(ticket, (name, mode))| {
        let ticket = ticket?;
        Some(LockFuture::made(name, mode, ticket, Arc::clone(refs.here())))
    });
    Ok(made.collect())
}

/// Until when all that the agent of this handle has is its own without further word from the reach;
/// see [`Backend::ends`].
pub fn ends(locks: &LockManager) -> Option<Duration> {
    let agent = locks.agent()?;
    agent.backend().ends(agent.id)
}

/// Has no grant from here on get a smaller fencing token than this one, in the bucket of this handle.
/// Whether its reach does that; see [`Backend::raise_tokens`].
///
/// ```
/// # use navlock_core::{Error, FencingToken, UserAgent, host};
/// let locks = UserAgent::new().lock_manager("app");
/// assert!(host::raise_tokens(&locks, FencingToken::new(1000)));
/// assert_eq!(locks.lock("db").blocking()?.fencing_token(), FencingToken::new(1000));
/// # Ok::<(), Error>(())
/// ```
pub fn raise_tokens(locks: &LockManager, least: FencingToken) -> bool {
    locks.agent().is_some_and(|agent| agent.backend().raise_tokens(least))
}

/// What another process needs to end all that the agent of this handle has, should this one be killed
/// together with the one that the agent works for; see [`Backend::lease`].
pub fn lease(locks: &LockManager) -> Option<Vec<u8>> {
    let agent = locks.agent()?;
    agent.backend().lease(agent.id)
}

/// What there is in the bucket of this handle, for those who look; see [`Backend::look`].
///
/// # Errors
///
/// As [`LockManager::query`].
pub async fn look(locks: &LockManager) -> Result<Sighting, Error> {
    locks.environment().obtain_lock_manager()?.agent.backend().look().await
}

/// How this name of the bucket of this handle is called by all who use its reach; see
/// [`Backend::name_ref`].
pub fn name_ref(locks: &LockManager, name: &ResourceName) -> NameRef {
    match locks.agent() {
        Some(agent) => agent.backend().name_ref(name),
        None => NameRef(name.as_bytes().into()),
    }
}

/// What there is of one name in the bucket of this handle, for those who look; see [`Backend::look_at`].
///
/// # Errors
///
/// As [`LockManager::query`].
pub async fn look_at(
    locks: &LockManager,
    name: NameRef,
    with_silence: bool,
) -> Result<Sighting, Error> {
    let backend = locks.environment().obtain_lock_manager()?.agent.backend();
    backend.look_at(name, with_silence).await
}

/// Where the agent of this client id stands in the queue of a name; see
/// [`LockManager::position`].
///
/// # Errors
///
/// As those of [`LockManager::query`].
pub async fn position_of(
    locks: &LockManager,
    name: ResourceName,
    client_id: ClientId,
) -> Result<Position, Error> {
    let backend = locks.environment().obtain_lock_manager()?.agent.backend();
    backend.position(name, client_id).await
}

/// What there is to be known of the reach of a user agent at this moment, for people; see
/// [`Reach::details`].
pub fn details(user_agent: &UserAgent) -> Vec<(String, String)> {
    user_agent.reach().details()
}

/// That whoever keeps the locks of this user agent has not answered, and for how long, if that is so; for people. See
/// [`Reach::outage`].
pub fn outage(user_agent: &UserAgent) -> Option<String> {
    user_agent.reach().outage()
}

/// Whether this user agent has been [closed](UserAgent::close).
pub fn is_closed(user_agent: &UserAgent) -> bool {
    user_agent.is_closed()
}

/// What another process needs to end what this user agent's reach has for all of its agents together; see
/// [`Reach::lease`].
pub fn own_lease(user_agent: &UserAgent) -> Option<Vec<u8>> {
    user_agent.reach().lease()
}

/// How long what works under a lost lock may go on before others can have it; see [`Reach::grace`].
pub fn grace(user_agent: &UserAgent) -> Duration {
    user_agent.reach().grace()
}

/// Ends leases that agents had through other processes, which are dead; see [`lease`], [`own_lease`] and
/// [`Reach::revoke`]. Whether none of them is there by now.
///
/// # Cancel safety
///
/// Dropping the future leaves the rest to end by themselves.
pub async fn revoke(user_agent: &UserAgent, leases: Vec<Vec<u8>>) -> bool {
    user_agent.reach().revoke(leases).await
}

/// Takes a name from all who hold it, if they were all seen to; see [`Reach::evict`].
///
/// # Errors
///
/// Those of [`Reach::evict`].
///
/// # Cancel safety
///
/// If the future is dropped, it may be done or not.
pub async fn evict(
    user_agent: &UserAgent,
    bucket: &str,
    name: &ResourceName,
    seen: Vec<(ClientId, FencingToken)>,
) -> Result<Eviction, Error> {
    user_agent.reach().evict(bucket, name, seen).await
}
