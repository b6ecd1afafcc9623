//! The agents of a client.

use std::sync::Arc;

use navlock_core::{
    AgentInfo, ClientId, LockManager,
    host::{self, Term, clip_bytes},
    look::Change,
};
use navlock_engine::RequestId;
use navlock_wire::{Agent, BootTime, MAX_BUCKET, MAX_META, MAX_TEXT};

use super::{
    super::{process::Process, requests::RequestOwner, session_ends::ProtocolError},
    ClientRecord, NO_AGENT, OpenAgent,
};
use crate::{clock::boot_time, this_process};

/// How many agents beyond the limit are remembered, for each agent that the limit allows. Each
/// takes a few bytes.
const REFUSED_FOR_ONE: usize = 16;

/// Ends the agent that had this number before the client came back, if the client has given it to another one since.
pub(in super::super) fn end_former_agent(
    client: &mut ClientRecord,
    agent: Agent,
    client_id: ClientId,
) {
    if client.agents.get(&agent).is_some_and(|open| open.of.client_id != client_id) {
        let _ = client.close_agent(agent);
    }
}

impl ClientRecord {
    pub(in super::super) fn open_agent(
        &mut self,
        agent: Agent,
        client_id: ClientId,
        bucket: String,
    ) -> Result<(), ProtocolError> {
        if let Some(open) = self.agents.get(&agent) {
            // A client that comes back to its inherited locks opens agents that are open already.
            if open.of.client_id == client_id && *open.of.bucket == *bucket {
                return Ok(());
            }
        }
        if self.agents.contains_key(&agent) || self.refused.contains(&agent) {
            return Err(ProtocolError("it opened an agent twice"));
        }
        if bucket.len() > MAX_BUCKET {
            return Err(ProtocolError("its bucket's name is too long"));
        }
        if !self.may_be_called(client_id) {
            return Err(ProtocolError("it opened an agent with the id of another client's"));
        }
        let has_room = self.agents.len() < self.limits.agents && self.has_room_for_names();
        if !has_room || !self.has_room_for_user() {
            if self.refused.len() >= REFUSED_FOR_ONE * self.limits.agents {
                return Err(ProtocolError("it opened far too many agents"));
            }
            self.refused.insert(agent);
            return Ok(());
        }
        self.bucket_bytes += bucket.len();
        let locks = host::lock_manager_as(&self.user_agent.bucket(&bucket), client_id);
        let of = Arc::new(RequestOwner { agent, client_id, bucket: bucket.into() });
        let key = self.files.as_ref().map(|(key, _)| *key);
        self.directory.enter(client_id, &self.me, key);
        self.note_agent(client_id);
        let mut info = AgentInfo::default();
        if self.guest.is_some() {
            info.pid = self.pid().unwrap_or(0);
            self.put_known(&mut info);
        }
        self.agents.insert(agent, OpenAgent { locks, of, info: Arc::new(info), command: None });
        self.tell_agent(agent);
        Ok(())
    }

    pub(in super::super) fn describe(
        &mut self,
        agent: Agent,
        mut info: AgentInfo,
    ) -> Result<(), ProtocolError> {
        if self.refused.contains(&agent) {
            return Ok(());
        }
        let open = self.agents.get_mut(&agent).ok_or(NO_AGENT)?;
        info.meta.truncate(MAX_META);
        // The process is opened now, while the command is a child of the client, so that no other
        // process can have its number.
        if let Some(process) = self.process.as_ref().filter(|one| one.number() != info.pid) {
            open.command = process.child(info.pid);
        }
        self.put_known(&mut info);
        let open = self.agents.get_mut(&agent).ok_or(NO_AGENT)?;
        let number = self.process.as_ref().map(Process::number);
        let is_of_others = info.pid != 0 && Some(info.pid) != number;
        let texts = [&mut info.command, &mut info.user, &mut info.host, &mut info.why];
        let meta = info.meta.iter_mut().flat_map(|(key, value)| [key, value]);
        texts.into_iter().chain(meta).for_each(clip);
        open.locks.describe(&info);
        open.info = Arc::new(info);
        self.tell_agent(agent);
        if is_of_others {
            self.keep_inherited_file();
        }
        Ok(())
    }

    /// Puts into what an agent says of itself what the kernel has said of the client's connection, whatever the
    /// client says. Where several users share the daemon, it also names no process but those of its user.
    fn put_known(&self, info: &mut AgentInfo) {
        let Some(user) = self.user() else {
            // Of a user's own daemon everything is that user's.
            info.user = this_process().user;
            return;
        };
        user.name().clone_into(&mut info.user);
        info.host = this_process().host;
        let number = self.pid().unwrap_or(0);
        for pid in [&mut info.pid, &mut info.keeper] {
            if *pid != 0 && !user.has_process(*pid) {
                *pid = number;
            }
        }
    }

    /// Notes what the lock of a request is for that the client is about to make or to claim. Beyond the
    /// limits, it is not noted.
    pub(in super::super) fn note_why(&mut self, request: RequestId, why: &str) {
        if self.has_room_for_names() {
            self.requests.note_why(request, clip_bytes(why, MAX_TEXT), self.limits.requests);
        }
    }

    pub(in super::super) fn close_agent(&mut self, agent: Agent) -> Result<(), ProtocolError> {
        if self.refused.remove(&agent) {
            return Ok(());
        }
        let open = self.take_agent(agent).ok_or(NO_AGENT)?;
        self.requests.take_back(Some(agent));
        open.locks.terminate();
        self.requests.settle_all();
        self.note_agent_ended(open.of.client_id);
        self.forget_agent(&open.of);
        Ok(())
    }

    pub(in super::super) fn terminate(&mut self, agent: Agent) -> Result<(), ProtocolError> {
        if self.refused.contains(&agent) {
            return Ok(());
        }
        let open = self.agents.get(&agent).ok_or(NO_AGENT)?;
        self.requests.take_back(Some(agent));
        open.locks.terminate();
        Ok(())
    }

    /// Checks that the client has opened this agent, even if it was beyond the limit.
    pub(in super::super) fn check_agent(&self, agent: Agent) -> Result<(), ProtocolError> {
        let is_there = self.agents.contains_key(&agent) || self.refused.contains(&agent);
        is_there.then_some(()).ok_or(NO_AGENT)
    }

    /// The bucket of an agent, unless the agent was beyond the limit.
    pub(in super::super) fn bucket(&self, agent: Agent) -> Option<&Arc<str>> {
        self.agents.get(&agent).map(|open| &open.of.bucket)
    }

    /// Its agents.
    pub(in super::super) fn agents(
        &self,
    ) -> impl Iterator<Item = (&Arc<RequestOwner>, &LockManager)> {
        self.agents.values().map(|open| (&open.of, &open.locks))
    }

    /// When the agent's locks and requests end, if they may end by themselves.
    pub(in super::super) fn ends(&self, agent: Agent) -> Option<BootTime> {
        let (backend, agent) = host::backend(&self.agents.get(&agent)?.locks).ok()?;
        backend.ends(agent).map(boot_time)
    }

    /// The whole term of the agent.
    pub(in super::super) fn term(&self, agent: Agent) -> Option<Term> {
        self.agents.get(&agent)?.locks.term()
    }

    /// What another process needs to end all locks and requests of the agent.
    pub(in super::super) fn lease(&self, agent: Agent) -> Option<Vec<u8>> {
        let (backend, agent) = host::backend(&self.agents.get(&agent)?.locks).ok()?;
        backend.lease(agent)
    }

    /// The terms of all its agents.
    pub(in super::super) fn terms(&self) -> Vec<Term> {
        self.agents.values().filter_map(|open| open.locks.term()).collect()
    }

    /// Takes an agent out, if it is there.
    pub(super) fn take_agent(&mut self, agent: Agent) -> Option<OpenAgent> {
        let open = self.agents.swap_remove(&agent)?;
        self.bucket_bytes -= open.of.bucket.len();
        Some(open)
    }

    /// Tells others that an agent has gone.
    pub(super) fn forget_agent(&self, of: &RequestOwner) {
        self.directory.leave(of.client_id, &self.me);
        self.lookers.tell(|| Change::AgentWent { agent: of.client_id });
    }
}

/// Clips a text to the length that is kept.
fn clip(text: &mut String) {
    if text.len() > MAX_TEXT {
        *text = clip_bytes(text, MAX_TEXT).to_owned();
    }
}
