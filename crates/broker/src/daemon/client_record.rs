//! One client: its agents, and their requests and locks.

mod agents;
mod ancestors;
mod claimed;
mod events;
mod inheritance;
mod map_slots;
mod notes;

use std::{
    collections::HashSet,
    fs::File,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll},
};

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use navlock_core::{
    AgentInfo, ClientId, Error, LockManager, ResourceName, UserAgent,
    host::{self, RequestKind},
    look::{self, Change, ClientState},
};
use navlock_engine::{FencingToken, RequestId};
use navlock_platform::descriptor::Counted;
use navlock_wire::{Agent, ClientKey, Moment, Slot};

pub(super) use self::{
    agents::end_former_agent,
    ancestors::{Ancestors, HeldFor},
    claimed::Claimed,
};
use super::{
    delegations::Delegations,
    directory::Directory,
    guests::Guest,
    held_notes::HeldNotes,
    lookers::Lookers,
    map::ClientMap,
    options::Limits,
    outcome::Outcome,
    process::Process,
    requests::{RequestOwner, Requests, Shown},
    session_ends::ProtocolError,
};
use crate::{client_files::ClientFiles, clock};

/// A client, with a connection, or without one if others have inherited its locks.
///
/// A client that is dropped is [ended](Self::end).
pub(super) struct ClientRecord {
    user_agent: UserAgent,
    pub(super) limits: Limits,
    /// Lookers go through the agents with pauses, by place, as through [requests](Requests::changes_at).
    agents: IndexMap<Agent, OpenAgent, RandomState>,
    /// The bytes in the names of the agents' buckets. A bucket counts once for each agent, because
    /// lookers are told the bucket with each agent.
    bucket_bytes: usize,
    /// The agents beyond the limit. The requests of these agents fail.
    refused: HashSet<Agent>,
    pub(super) requests: Requests,
    /// The lookers, who are told what happens to the client.
    lookers: Arc<Lookers>,
    /// This client, and the directory in which its agents are entered.
    me: Weak<Mutex<Self>>,
    directory: Arc<Directory<Self>>,
    /// The number and the state by which lookers know the client. A client with a connection has the
    /// number of the connection, and an orphan has a number of its own. `None` before the client was
    /// entered, and once it has ended.
    number: Option<(u64, ClientState)>,
    /// When the client came.
    since: Moment,
    /// `None` where no names are owned.
    delegations: Option<Arc<Delegations>>,
    /// The client's map, if the client has announced one.
    map: Option<Arc<ClientMap>>,
    /// The process at the other end of the connection, if that is known.
    process: Option<Process>,
    /// The client's key and its files. `None` if an earlier daemon left its locks, and it was never connected to this one.
    files: Option<(ClientKey, ClientFiles)>,
    /// Whose client it is, where several users share the daemon, and the notes of what it holds.
    guest: Option<Guest>,
    notes: Option<HeldNotes>,
    /// The file by which the client's command will inherit the client's locks. It is kept open, because
    /// its name may be removed while the command works.
    inherited_file: Option<Counted<File>>,
}

/// One lock or request as it is shown, with its agent.
pub(super) struct ShownOf<'a> {
    pub(super) id: RequestId,
    pub(super) shown: Shown<'a>,
    pub(super) bucket: &'a Arc<str>,
    pub(super) client_id: ClientId,
    pub(super) info: Arc<AgentInfo>,
}

/// An agent that a client has opened.
struct OpenAgent {
    locks: LockManager,
    of: Arc<RequestOwner>,
    info: Arc<AgentInfo>,
    /// The command that it works for, if that is a child of the client's process.
    command: Option<Process>,
}

impl ClientRecord {
    pub(super) fn new(
        user_agent: UserAgent,
        limits: Limits,
        delegations: Option<Arc<Delegations>>,
        lookers: Arc<Lookers>,
        (me, directory): (Weak<Mutex<Self>>, Arc<Directory<Self>>),
    ) -> Self {
        Self {
            me,
            directory,
            requests: Requests::new(Arc::clone(&lookers), user_agent.is_leased()),
            lookers,
            number: None,
            since: clock::now(),
            delegations,
            map: None,
            user_agent,
            limits,
            agents: IndexMap::default(),
            bucket_bytes: 0,
            refused: HashSet::new(),
            process: None,
            files: None,
            guest: None,
            notes: None,
            inherited_file: None,
        }
    }

    /// Sets whether the log may tell names even above the level debug.
    pub(super) fn with_names_in_logs(mut self, with_names: bool) -> Self {
        self.requests.log_names = with_names;
        self
    }

    /// Sets the process that has made the connection, and the client's key and files.
    pub(super) fn begin(&mut self, process: Option<Process>, key: ClientKey, files: ClientFiles) {
        self.requests.pid = process.as_ref().map(Process::number);
        (self.process, self.files) = (process, Some((key, files)));
        // On a new connection the client announces its map anew.
        self.map = None;
    }

    /// The process that is connected, if that is known.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::number)
    }

    /// Makes a request. If a slot is given, the lock is to stand in this slot. Returns the outcome if
    /// there is one at once. The caller has ensured that nobody owns the name: see
    /// [`Delegations::settle`].
    pub(super) fn request(
        &mut self,
        agent: Agent,
        id: RequestId,
        name: ResourceName,
        kind: RequestKind,
        slot: Option<Slot>,
    ) -> Result<Option<Outcome>, ProtocolError> {
        self.check_agent(agent)?;
        if self.requests.contains(id) {
            return Err(ProtocolError("it used the number of a request twice"));
        }
        let has_room = self.requests.len() < self.limits.requests && self.has_room_for_names();
        if !has_room || !self.has_room_for_user() {
            self.requests.forget_why(id);
            return Ok(Some(self.no_room()));
        }
        let outcome = self.make(agent, id, name, kind, slot);
        match outcome {
            None => self.note_request(id, None),
            Some(Outcome::Granted(token, _)) => self.note_request(id, Some(token)),
            Some(_) => {}
        }
        Ok(outcome)
    }

    /// Whether the client may use more names, of buckets or of locks.
    fn has_room_for_names(&self) -> bool {
        self.requests.name_bytes() + self.bucket_bytes < self.limits.name_bytes
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
        let can_own = self.raise_tokens(&open.locks, &open.of.bucket, &name);
        let known = self.lookers.are_there().then(|| (Arc::clone(&open.of), name.clone()));
        let mut outcome = self.requests.request(id, &open.of, &open.locks, name, kind);
        if self.delegations.is_some() {
            outcome = self.place(id, kind, slot, can_own, outcome);
        }
        if outcome.is_none() {
            self.lookers.waits.notify_one();
        }
        if let Some((of, name)) = known {
            match outcome {
                Some(Outcome::Unavailable) => self.requests.tell_unavailable(&of, &name),
                _ => self.requests.tell(id),
            }
        }
        outcome
    }

    fn no_agent(&self) -> Outcome {
        let Limits { agents, name_bytes, .. } = self.limits;
        let of_user = self.limit_of_user().map(|limit| format!(", and {limit}"));
        let of_user = of_user.unwrap_or_default();
        refused(format!(
            "the broker keeps at most {agents} lock managers for one connection, with {name_bytes} bytes of names \
             of buckets and locks{of_user}; drop some"
        ))
    }

    /// The answer to a request beyond the limit.
    pub(super) fn no_room(&self) -> Outcome {
        let Limits { requests, name_bytes, .. } = self.limits;
        let limit = self.limit_of_user().unwrap_or_else(|| {
            format!("{requests} requests with {name_bytes} bytes of names for one connection")
        });
        refused(format!(
            "the broker keeps at most {limit}; release some, or wait for fewer at a time"
        ))
    }

    /// What one user can have, where several users share the daemon.
    fn limit_of_user(&self) -> Option<String> {
        let Limits { requests, name_bytes, .. } = self.limits;
        self.guest.as_ref().map(|_| {
            format!(
                "{requests} lock managers, requests and locks with {name_bytes} bytes of names for one user"
            )
        })
    }

    /// Aborts the request, or releases the lock, if it is still here.
    pub(super) fn finish(&mut self, id: RequestId) {
        self.note_ended(id);
        self.requests.finish(id);
    }

    /// Adds the locks of this name that the engine counts as held: see [`Requests::held`].
    pub(super) fn held(
        &self,
        bucket: &str,
        name: &ResourceName,
        held: &mut Vec<Option<(look::LockId, FencingToken)>>,
    ) {
        held.extend(self.requests.held(bucket, name));
    }

    /// The agents of this client that hold something.
    pub(super) fn holders(&self) -> HashSet<Agent> {
        let held = self.requests.shown().filter(|(_, shown)| shown.token.is_some());
        held.map(|(_, shown)| shown.agent).collect()
    }

    /// The agents of this client that hold something or wait for something.
    pub(super) fn askers(&self) -> HashSet<Agent> {
        self.requests.shown().map(|(_, shown)| shown.agent).collect()
    }

    /// Notes that the client has to be asked to check its own file.
    pub(super) fn ask_to_register(&mut self) {
        // This id belongs to no request.
        self.requests.settle(RequestId::from_parts(0, 0), Outcome::Register);
        self.requests.wake();
    }

    /// Ends all its agents at once: none of them is granted a lock that another of them has left.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    pub(super) fn end(&mut self) {
        if self.number.is_some() {
            self.requests.tell_all_finished();
        }
        self.requests.take_back(None);
        // From here on no later daemon believes the client.
        if let (Some(notes), Some((key, files))) = (self.notes.take(), &self.files) {
            files.forget_notes(*key, &notes.file);
        }
        if !self.agents.is_empty() {
            self.requests.count_as_finished();
        }
        host::terminate_all(self.agents.values().map(|open| &open.locks));
        for open in self.agents.values() {
            self.forget_agent(&open.of);
        }
        self.agents.clear();
        self.bucket_bytes = 0;
        self.guest = None;
        if let Some((client, _)) = self.number.take() {
            self.lookers.tell(|| Change::ClientWent { client });
        }
    }

    /// Whether the process at the other end of the connection is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.process.as_ref().is_some_and(Process::has_ended)
    }

    /// The processes of this client that are ending and have not ended, if the client holds locks.
    /// These processes may still have files or ports open.
    pub(super) fn ending(&self) -> Vec<Process> {
        if self.requests.count().0 == 0 {
            return Vec::new();
        }
        let commands = self.agents.values().filter_map(|open| open.command.as_ref());
        let processes = self.process.iter().chain(commands);
        processes.filter(|process| process.is_ending()).cloned().collect()
    }

    /// Returns the next outcome that the client is to be told, apart from those that requests return at
    /// once.
    pub(super) fn poll_outcome(&mut self, context: &Context<'_>) -> Poll<(RequestId, Outcome)> {
        let outcome = self.requests.poll_outcome(context);
        match outcome {
            Poll::Ready((request, Outcome::Granted(token, _))) => {
                // Those who wait may be inside this lock.
                self.lookers.waits.notify_one();
                self.note_request(request, Some(token));
            }
            Poll::Ready((request, Outcome::Lost(..) | Outcome::Failed(_))) => {
                self.note_ended(request);
            }
            _ => {}
        }
        match outcome {
            Poll::Ready((request, Outcome::Granted(token, false))) if self.map.is_some() => {
                // The client does not own the name: others may wait behind it, or a victim of its theft
                // may not know of the theft yet.
                Poll::Ready((request, self.grant(request, token, false)))
            }
            outcome => outcome,
        }
    }

    /// What its agents hold and wait for, of one name or of all. In no order.
    pub(super) fn shown(
        &mut self,
        name: Option<&ResourceName>,
    ) -> impl Iterator<Item = ShownOf<'_>> + use<'_> {
        let (ids, this) = (self.requests.ids(name), &*self);
        ids.into_iter().filter_map(|id| {
            let shown = this.requests.of(id)?;
            let OpenAgent { of, info, .. } = this.agents.get(&shown.agent)?;
            let info = this.requests.with_why(id, info);
            Some(ShownOf { id, shown, bucket: &of.bucket, client_id: of.client_id, info })
        })
    }
}

const NO_AGENT: ProtocolError = ProtocolError("it spoke for an agent that it had not opened");

impl Drop for ClientRecord {
    fn drop(&mut self) {
        self.end();
    }
}

fn refused(why: String) -> Outcome {
    Outcome::Failed(Error::refused(why))
}
