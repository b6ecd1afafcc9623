//! What one client has: its agents, and what they ask for.

mod slots;

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use foldhash::fast::RandomState;
use navlock_core::{
    AgentInfo, ClientId, Error, LockManager, Lost, Mode, ResourceName, UserAgent,
    host::{self, RequestKind, Term},
};
use navlock_engine::{FencingToken, RequestId};
use navlock_wire::{
    Agent, ClientKey, Failure, FromDaemon, MAX_BUCKET, MAX_TEXT, Moment, Slot, Uptime,
};

use self::slots::Mapped;
use super::{
    Limits,
    delegations::Delegations,
    process::Process,
    requests::{Outcome, Requests, Shown},
};
use crate::{
    client_files::{ClientFiles, Inherited},
    descriptors::Counted,
    forms::from_wire,
    lock_file::Identity,
};

/// For one agent that may be, so many that may not are kept apart; they take a few bytes each.
const REFUSED_FOR_ONE: usize = 16;

/// What no client says.
#[derive(Debug)]
#[expect(dead_code, reason = "for those who debug the daemon")]
pub(super) struct Nonsense(pub(super) &'static str);

/// A client, whether its connection is there or it has left its locks to others.
///
/// Dropping it is its [end](Self::end).
pub(super) struct Client {
    user_agent: UserAgent,
    limits: Limits,
    agents: HashMap<Agent, OpenAgent, RandomState>,
    /// The agents that were too many. What they ask for fails.
    refused: HashSet<Agent>,
    requests: Requests,
    /// `None` where no names are owned.
    delegations: Option<Arc<Delegations>>,
    /// Its map, if it has said that it has one.
    map: Option<Mapped>,
    /// The process whose connection this is, if that is known.
    process: Option<Process>,
    /// Its key, and where its files are, if it has said that.
    files: Option<(ClientKey, ClientFiles)>,
    /// The file of those who will have inherited its locks: it may be removed while they work.
    testament: Option<Counted<File>>,
}

struct OpenAgent {
    locks: LockManager,
    bucket: Arc<str>,
    info: Arc<AgentInfo>,
    /// The command that it works for, if that is a child of the client's process.
    command: Option<Process>,
}

/// One lock or request as it is shown, and whose it is.
pub(super) struct ShownOf<'a> {
    pub(super) id: RequestId,
    pub(super) shown: Shown<'a>,
    pub(super) bucket: &'a Arc<str>,
    pub(super) client_id: ClientId,
    pub(super) info: &'a Arc<AgentInfo>,
}

impl Client {
    pub(super) fn new(
        user_agent: UserAgent,
        limits: Limits,
        delegations: Option<Arc<Delegations>>,
    ) -> Self {
        Self {
            delegations,
            map: None,
            user_agent,
            limits,
            agents: HashMap::default(),
            refused: HashSet::new(),
            requests: Requests::default(),
            process: None,
            files: None,
            testament: None,
        }
    }

    /// This process has made its connection, and these are its key and where its files are.
    pub(super) fn begin(
        &mut self,
        process: Option<Process>,
        files: Option<(ClientKey, ClientFiles)>,
    ) {
        (self.process, self.files) = (process, files);
        // It says anew whether it has one.
        self.map = None;
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Others work under its locks, it says, who may have inherited them.
    fn keep_testament(&mut self) {
        let Some((key, files)) = &self.files else { return };
        if let Some(file) = files.open_inherited(*key) {
            self.testament = Counted::if_few(file);
        }
    }

    /// What those have inherited who live, by its file, which somebody has removed.
    ///
    /// # Errors
    ///
    /// If that cannot be told for the moment.
    pub(super) fn inherited(&self) -> io::Result<Option<Inherited>> {
        let Some((key, files)) = &self.files else { return Ok(None) };
        if let Some(file) = &self.testament {
            return files.inherited_by(*key, file.get());
        }
        if self.is_empty() {
            return Ok(None);
        }
        // It was removed before we could open it. Whoever works under its locks has it open too, and
        // who has ended has nothing open.
        let ended = self.process.as_ref().filter(|process| process.has_ended());
        let ended = ended.map(Process::number);
        let processes = self.agents.values().map(|open| open.info.pid);
        let processes: HashSet<u32> = processes.filter(|pid| Some(*pid) != ended).collect();
        let file = processes.iter().find_map(|pid| files.open_inherited_of(*key, *pid));
        file.map_or(Ok(None), |file| files.inherited_by(*key, &file))
    }

    /// How many locks it holds, and for how many it waits.
    pub(super) fn count(&self) -> (usize, usize) {
        self.requests.count()
    }

    pub(super) fn open_agent(
        &mut self,
        agent: Agent,
        client_id: ClientId,
        bucket: String,
    ) -> Result<(), Nonsense> {
        if let Some(open) = self.agents.get(&agent) {
            // Who comes back to what it has left to others opens what is open.
            if open.locks.client_id() == client_id && *open.bucket == *bucket {
                return Ok(());
            }
        }
        if self.agents.contains_key(&agent) || self.refused.contains(&agent) {
            return Err(Nonsense("it opened an agent twice"));
        }
        if bucket.len() > MAX_BUCKET {
            return Err(Nonsense("its bucket's name is too long"));
        }
        if self.agents.len() >= self.limits.agents {
            if self.refused.len() >= REFUSED_FOR_ONE * self.limits.agents {
                return Err(Nonsense("it opened far too many agents"));
            }
            self.refused.insert(agent);
            return Ok(());
        }
        let locks = host::lock_manager_as(&self.user_agent.bucket(&bucket), client_id);
        self.agents.insert(
            agent,
            OpenAgent { locks, bucket: bucket.into(), info: Arc::default(), command: None },
        );
        Ok(())
    }

    pub(super) fn describe(
        &mut self,
        agent: Agent,
        info: navlock_wire::AgentInfo,
    ) -> Result<(), Nonsense> {
        if self.refused.contains(&agent) {
            return Ok(());
        }
        let open = self.agents.get_mut(&agent).ok_or(NO_AGENT)?;
        let mut info = from_wire(info);
        // Now, while it is a child and the number is its own.
        if let Some(process) = self.process.as_ref().filter(|one| one.number() != info.pid) {
            open.command = process.child(info.pid);
        }
        let number = self.process.as_ref().map(Process::number);
        let is_of_others = info.pid != 0 && Some(info.pid) != number;
        for text in [&mut info.command, &mut info.user, &mut info.host, &mut info.why] {
            clip(text);
        }
        open.locks.describe(&info);
        open.info = Arc::new(info);
        if is_of_others {
            self.keep_testament();
        }
        Ok(())
    }

    pub(super) fn close_agent(&mut self, agent: Agent) -> Result<(), Nonsense> {
        if self.refused.remove(&agent) {
            return Ok(());
        }
        let open = self.agents.remove(&agent).ok_or(NO_AGENT)?;
        self.requests.take_back(Some(agent));
        open.locks.terminate();
        Ok(())
    }

    pub(super) fn terminate(&mut self, agent: Agent) -> Result<(), Nonsense> {
        if self.refused.contains(&agent) {
            return Ok(());
        }
        let open = self.agents.get(&agent).ok_or(NO_AGENT)?;
        self.requests.take_back(Some(agent));
        open.locks.terminate();
        Ok(())
    }

    /// Makes a request, for a lock that is to stand in this slot, if in any. What there is to say of it
    /// at once. Nobody must own what it asks for: see [`House::settle`](super::house::House::settle).
    pub(super) fn request(
        &mut self,
        agent: Agent,
        id: RequestId,
        name: ResourceName,
        kind: RequestKind,
        slot: Option<Slot>,
    ) -> Result<Option<Outcome>, Nonsense> {
        self.check_agent(agent)?;
        if self.requests.contains(id) {
            return Err(Nonsense("it used the number of a request twice"));
        }
        if self.requests.len() >= self.limits.requests
            || self.requests.name_bytes() >= self.limits.name_bytes
        {
            return Ok(Some(self.no_room()));
        }
        Ok(self.make(agent, id, name, kind, slot))
    }

    /// Makes a request for which there is room.
    fn make(
        &mut self,
        agent: Agent,
        id: RequestId,
        name: ResourceName,
        kind: RequestKind,
        slot: Option<Slot>,
    ) -> Option<Outcome> {
        let Some(open) = self.agents.get(&agent) else {
            return Some(self.no_agent());
        };
        let can_own = self.raise_tokens(&open.locks, &open.bucket, &name);
        let outcome = self.requests.request(id, agent, &open.locks, name, kind);
        if self.delegations.is_some() {
            self.place(id, kind, slot, can_own, outcome)
        } else {
            outcome
        }
    }

    fn no_agent(&self) -> Outcome {
        refused(format!(
            "the broker keeps at most {} lock managers for one connection; drop some",
            self.limits.agents
        ))
    }

    /// What there is to say to a request too many.
    pub(super) fn no_room(&self) -> Outcome {
        refused(format!(
            "the broker keeps at most {} requests with {} bytes of names for one connection; \
             release some, or wait for fewer at a time",
            self.limits.requests, self.limits.name_bytes
        ))
    }

    /// Aborts the request or releases the lock, whichever it is, if it still is.
    pub(super) fn finish(&mut self, id: RequestId) {
        self.requests.finish(id);
    }

    pub(super) fn contains(&self, id: RequestId) -> bool {
        self.requests.contains(id)
    }

    /// Whether there is such an agent, be it one too many.
    pub(super) fn check_agent(&self, agent: Agent) -> Result<(), Nonsense> {
        let is_there = self.agents.contains_key(&agent) || self.refused.contains(&agent);
        is_there.then_some(()).ok_or(NO_AGENT)
    }

    /// The bucket of an agent, if that is not one too many.
    pub(super) fn bucket(&self, agent: Agent) -> Option<&Arc<str>> {
        self.agents.get(&agent).map(|open| &open.bucket)
    }

    /// Its agents, by their numbers.
    pub(super) fn agents(&self) -> impl Iterator<Item = (Agent, &LockManager)> {
        self.agents.iter().map(|(agent, open)| (*agent, &open.locks))
    }

    /// Those of its agents that hold something.
    pub(super) fn holders(&self) -> HashSet<Agent> {
        let held = self.requests.shown().filter(|(_, shown)| shown.token.is_some());
        held.map(|(_, shown)| shown.agent).collect()
    }

    /// Until when all that the agent has is its own, if that may end by itself.
    pub(super) fn ends(&self, agent: Agent) -> Option<Uptime> {
        let ends = host::ends(&self.agents.get(&agent)?.locks)?;
        Some(nanos(ends))
    }

    /// The rest of that.
    pub(super) fn term(&self, agent: Agent) -> Option<Term> {
        self.agents.get(&agent)?.locks.term()
    }

    /// What another process needs to end all that the agent has.
    pub(super) fn lease(&self, agent: Agent) -> Option<Vec<u8>> {
        host::lease(&self.agents.get(&agent)?.locks)
    }

    /// The same of all its agents.
    pub(super) fn terms(&self) -> Vec<Term> {
        self.agents.values().filter_map(|open| open.locks.term()).collect()
    }

    /// Those of its agents that hold something or wait for it.
    pub(super) fn askers(&self) -> HashSet<Agent> {
        self.requests.shown().map(|(_, shown)| shown.agent).collect()
    }

    /// Whose request or lock this is.
    pub(super) fn agent_of(&self, request: RequestId) -> Option<Agent> {
        self.requests.agent_of(request)
    }

    /// All that it has, for what is found of it again.
    pub(super) fn requests_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }

    /// Has a lock that was held when the daemon before this one ended be held again.
    pub(super) fn reinstate(&mut self, lock: ClaimedLock) {
        let ClaimedLock { agent, request, name, mode, token, since } = lock;
        // Once is enough.
        if self.requests.contains(request) {
            return;
        }
        // Nobody was granted anything yet but those who held, so that it is to be had at once.
        let asked = self.make(agent, request, name, RequestKind::IfAvailable(mode), None);
        if let Some(Outcome::Granted(_)) = asked {
            self.requests.date_back(request, since, Some(token));
        } else {
            self.requests.finish(request);
            self.settle(request, Outcome::Lost(Lost::Disconnected, None));
        }
    }

    /// Puts a request that was pending when the daemon before this one ended into its queue.
    pub(super) fn requeue(&mut self, claim: ClaimedRequest) {
        let ClaimedRequest { agent, request, name, kind, since } = claim;
        if self.requests.contains(request) {
            return;
        }
        match self.make(agent, request, name, kind, None) {
            Some(outcome) => self.settle(request, outcome),
            None => self.requests.date_back(request, since, None),
        }
    }

    /// Notes what is to be said of a claim.
    pub(super) fn settle(&mut self, request: RequestId, outcome: Outcome) {
        self.requests.settle(request, outcome);
    }

    /// Has it be asked to see to its file.
    pub(super) fn ask_to_register(&mut self) {
        // Of no request.
        self.requests.settle(RequestId::from_parts(0, 0), Outcome::Register);
        self.requests.wake();
    }

    /// Releases all locks but these, and aborts all requests.
    pub(super) fn keep_held(&mut self, wanted: impl Fn(RequestId) -> bool) {
        self.requests.keep_held(wanted);
    }

    /// Leaves these locks to others and ends all else.
    pub(super) fn bequeath(&mut self, wanted: impl Fn(RequestId) -> bool) {
        self.keep_held(wanted);
        if self.has_ended() {
            // Its file may go, and says nothing of who works under these.
            self.leave_slots();
        }
        let holders = self.holders();
        self.agents.retain(|agent, open| {
            let holds = holders.contains(agent);
            if !holds {
                open.locks.terminate();
            }
            holds
        });
    }

    /// Ends its agents as one: none of them is granted what another has left.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    pub(super) fn end(&mut self) {
        self.requests.take_back(None);
        host::terminate_all(self.agents.values().map(|open| &open.locks));
        self.agents.clear();
    }

    /// Whether the process whose connection this was is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.process.as_ref().is_some_and(Process::has_ended)
    }

    /// Those of its processes whose end has begun and is not complete, if it holds anything: what
    /// they have open is not all closed yet.
    pub(super) fn ending(&self) -> Vec<Process> {
        if self.count().0 == 0 {
            return Vec::new();
        }
        let commands = self.agents.values().filter_map(|open| open.command.as_ref());
        let processes = self.process.iter().chain(commands);
        processes.filter(|process| process.is_ending()).cloned().collect()
    }

    /// The commands that have inherited its locks, by this file.
    pub(super) fn heirs(&self, file: Option<Identity>) -> Vec<Process> {
        let heirs = self.agents.values().filter_map(|open| {
            // Or it is known from an earlier daemon alone.
            let found = || Process::with_open(open.info.pid, file?);
            open.command.clone().or_else(found)
        });
        heirs.collect()
    }

    /// Whether it has nothing that others could have inherited.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.len() == 0
    }

    /// Ready whenever there is an outcome that nobody asked for.
    pub(super) fn poll_outcome(&mut self, context: &Context<'_>) -> Poll<(RequestId, Outcome)> {
        match self.requests.poll_outcome(context) {
            Poll::Ready((request, Outcome::Granted(token))) if self.map.is_some() => {
                // Others may wait behind it, or its victim knows nothing yet.
                Poll::Ready((request, self.grant(request, token, false)))
            }
            outcome => outcome,
        }
    }

    /// All that its agents hold and wait for, in no order.
    pub(super) fn shown(&self) -> impl Iterator<Item = ShownOf<'_>> {
        self.requests.shown().filter_map(|(id, shown)| {
            let OpenAgent { locks, bucket, info, .. } = self.agents.get(&shown.agent)?;
            Some(ShownOf { id, shown, bucket, client_id: locks.client_id(), info })
        })
    }
}

/// A lock that a client held when the daemon before this one ended.
#[derive(Debug)]
pub(super) struct ClaimedLock {
    pub(super) agent: Agent,
    pub(super) request: RequestId,
    pub(super) name: ResourceName,
    pub(super) mode: Mode,
    pub(super) token: FencingToken,
    pub(super) since: Moment,
}

/// A request that was pending when the daemon before this one ended.
#[derive(Debug)]
pub(super) struct ClaimedRequest {
    pub(super) agent: Agent,
    pub(super) request: RequestId,
    pub(super) name: ResourceName,
    pub(super) kind: RequestKind,
    pub(super) since: Moment,
}

const NO_AGENT: Nonsense = Nonsense("it spoke for an agent that it had not opened");

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}

/// A moment as it is said.
pub(super) fn nanos(since_start: Duration) -> Uptime {
    // They last for centuries.
    u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX)
}

fn refused(why: String) -> Outcome {
    Outcome::Failed(Error::Refused(why))
}

/// Leaves as much of a text as is kept.
fn clip(text: &mut String) {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or_default());
        text.shrink_to_fit();
    }
}

/// What the client is told of it, in this version of the protocol.
pub(super) fn tell(request: RequestId, outcome: Outcome, version: u16) -> FromDaemon {
    match outcome {
        Outcome::Granted(token) => FromDaemon::Granted { request, token },
        Outcome::GrantedInSlot(token) => FromDaemon::GrantedInSlot { request, token },
        Outcome::Unavailable => FromDaemon::Unavailable { request },
        Outcome::Failed(error) => FromDaemon::Failed { request, failure: failure(&error) },
        Outcome::Lost(lost, stolen_by) => {
            let how = match lost {
                Lost::Stolen => match stolen_by {
                    Some(thief) if version >= 4 => navlock_wire::Lost::StolenBy(thief.to_bytes()),
                    _ => navlock_wire::Lost::Stolen,
                },
                Lost::Terminated => navlock_wire::Lost::Terminated,
                Lost::Closed => navlock_wire::Lost::Closed,
                Lost::Reset if version >= 4 => navlock_wire::Lost::Reset,
                Lost::Removed if version >= 4 => navlock_wire::Lost::Removed,
                // Also what this version has no word for: gone is gone.
                _ => navlock_wire::Lost::Disconnected,
            };
            FromDaemon::Lost { request, how }
        }
        Outcome::Register => FromDaemon::Register,
    }
}

/// What the client is told of an error.
pub(super) fn failure(error: &Error) -> Failure {
    match error {
        Error::Terminated => Failure::Terminated,
        Error::Closed => Failure::Closed,
        Error::Refused(why) => Failure::Refused(why.clone()),
        other => Failure::Other(other.to_string()),
    }
}
