//! Takes a name away from the holders that a person has seen.
//!
//! A request with `steal` takes a name from whoever holds it at that moment. But a person who has
//! looked and then decides means the holders that were shown. So the message names these holders.
//! The daemon compares them with the present holders in the same turn in which it calls the engine,
//! so nothing happens in between. Where locks are seen beyond this machine, the reach that keeps
//! the locks compares.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::FutureExt;
use navlock_core::{
    AgentInfo, ClientId, Error, FencingToken, ResourceName, Unreachable, UnreachableKind,
    host::{self, Eviction, RequestKind},
    look::LockId,
};
use navlock_engine::RequestId;
use navlock_wire::{MAX_BUCKET, NotStolen};

use super::{
    delegations::release,
    guests::{Guest, User},
    outcome::Outcome,
    process::Process,
    shared_client::lock,
    state::Daemon,
    timers::timeout,
};

/// How long this may take where a reach keeps the locks. The asker waits longer than this for the
/// answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// What is to be stolen.
pub(super) struct Steal {
    pub(super) bucket: String,
    pub(super) name: ResourceName,
    /// The locks that were seen, each with its token.
    pub(super) from: Vec<(LockId, FencingToken)>,
    /// Who steals it.
    pub(super) info: AgentInfo,
    /// For which user, where several users share the daemon.
    pub(super) user: Option<Arc<User>>,
}

impl Daemon {
    /// Takes a name away from all its holders and releases it, if all of them are among the holders that are
    /// named. Returns how many holders there were.
    pub(super) async fn steal(
        self: &Arc<Self>,
        steal: Steal,
        process: Option<Process>,
    ) -> Result<u64, NotStolen> {
        let refused = |why: &str| NotStolen::Refused(why.to_owned());
        if steal.bucket.len() > MAX_BUCKET {
            return Err(refused("no bucket has so long a name"));
        }
        if !self.recovery.is_over() {
            return Err(refused("the broker is taking over from the one before; look again"));
        }
        if self.user_agent.is_leased() {
            self.evict(steal).await
        } else {
            self.take(steal, process)
        }
    }

    /// Takes the name where locks are seen beyond this machine. The reach that keeps the locks compares the
    /// holders, and takes the locks.
    async fn evict(&self, steal: Steal) -> Result<u64, NotStolen> {
        let Steal { bucket, name, from, .. } = steal;
        let seen = from.into_iter().map(|(id, token)| (id.client_id, token));
        let evicted = host::reach(&self.user_agent).evict(&bucket, &name, seen.collect());
        let evicted = timeout(ANSWER_TIMEOUT, evicted).await;
        let none = || {
            let why = format!("no answer within {ANSWER_TIMEOUT:?}");
            Err(Unreachable::new(UnreachableKind::TimedOut, why).into())
        };
        match evicted.unwrap_or_else(none) {
            Ok(Eviction::From(count)) => Ok(count),
            Ok(Eviction::Free) => Err(NotStolen::Free),
            Ok(Eviction::HeldByOthers) => Err(NotStolen::HeldByOthers),
            Err(Error::Unreachable(why)) => Err(NotStolen::Unknown(why.to_string())),
            Err(error) => {
                let reach = self.reach().unwrap_or("its reach");
                Err(NotStolen::Refused(format!("{reach}: {error}")))
            }
        }
    }

    /// Takes the name where locks are seen on this machine alone. There is no `await` in this function,
    /// so nothing else happens in between.
    fn take(self: &Arc<Self>, steal: Steal, process: Option<Process>) -> Result<u64, NotStolen> {
        let Steal { bucket, name, from, info, user } = steal;
        let refused = |why: &str| NotStolen::Refused(why.to_owned());
        self.end_left_orphans(&bucket, Some(&name));
        // From here on, owners of the name cannot take it any more.
        if let Some(delegations) = self.delegations() {
            delegations.settle(&bucket, &name, RequestKind::Steal);
        }
        let victims = self.victims(&bucket, &name, &from.into_iter().collect())?;
        if let Some(why) = user.as_ref().and_then(|user| self.forbids_theft(user, &bucket, &name)) {
            return Err(NotStolen::Refused(why));
        }

        // No client has this key, so there is nothing to come back to, and no file to remove.
        let mut connected = self.enter(ClientId::random().to_bytes(), false, process);
        connected.is_given_up = true;
        let mut client = lock(&connected.client);
        if let Some(user) = user {
            client.belongs_to(Guest::thief(user), None);
        }
        let (agent, request) = (0, RequestId::from_parts(0, 0));
        let done = client.open_agent(agent, ClientId::random(), bucket);
        let done = done.and_then(|()| client.describe(agent, info));
        let done =
            done.and_then(|()| client.request(agent, request, name, RequestKind::Steal, None));
        client.finish(request);
        drop(client);
        match done {
            Ok(Some(Outcome::Granted(..))) => Ok(victims),
            Ok(_) => Err(refused("it could not be had")),
            Err(error) => Err(refused(error.0)),
        }
    }

    /// The agent of each lock of a name that the engine counts as held.
    ///
    /// # Errors
    ///
    /// Why it cannot be told, for people.
    pub(super) fn holders(
        &self,
        bucket: &str,
        name: &ResourceName,
    ) -> Result<Vec<ClientId>, String> {
        let locks = self.user_agent.lock_manager(bucket);
        // The answer is there at once, because this process keeps the locks.
        match locks.inspect(Some(name.clone())).now_or_never() {
            Some(Ok(seen)) => Ok(seen.held.into_iter().map(|held| held.lock.client_id).collect()),
            _ => Err("the broker cannot tell at this moment who holds it; try again".to_owned()),
        }
    }

    /// How many holders a name has, if it has any and all of them are among those that were `seen`.
    fn victims(
        &self,
        bucket: &str,
        name: &ResourceName,
        seen: &HashSet<(LockId, FencingToken)>,
    ) -> Result<u64, NotStolen> {
        if let Some(delegations) = self.delegations() {
            release(delegations.look(bucket, Some(name)).1);
        }
        let holders = self.holders(bucket, name).map_err(NotStolen::Refused)?;
        let (held, mut known) = (holders.len(), Vec::new());
        for client in self.directory.find(holders) {
            lock(&client).held(bucket, name, &mut known);
        }
        // A holder may be no client of this daemon.
        if known.len() != held {
            return Err(NotStolen::HeldByOthers);
        }
        // Nobody holds a lock whose word says "free", even if the engine does not know that yet.
        let mut victims = known.into_iter().flatten().peekable();
        if victims.peek().is_none() {
            return Err(NotStolen::Free);
        }
        victims.try_fold(0, |count, victim| {
            let is_seen = seen.contains(&victim);
            is_seen.then_some(count + 1).ok_or(NotStolen::HeldByOthers)
        })
    }
}
