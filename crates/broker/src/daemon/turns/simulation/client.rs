//! One client of a history: it speaks the protocol over a socket that is two buffers.

use std::{collections::VecDeque, fs::File, path::PathBuf};

use bytes::BytesMut;
use navlock_engine::RequestId;
use navlock_wire::{Agent, ClientCodec, FromDaemon, Moment, Sent, ToDaemon};
use tokio_util::codec::{Decoder, Encoder};

use super::plan::{AGENTS, ClientPlan};
use crate::{clock, lock_file};

/// A client with its socket.
#[expect(clippy::struct_excessive_bools, reason = "they are all independent of each other")]
#[derive(Debug)]
pub(super) struct Client {
    pub(super) plan: ClientPlan,
    /// Its agents, each with the number that no other agent of any client has.
    pub(super) agents: [Option<(Agent, usize)>; AGENTS],
    next_agent: Agent,
    /// Its requests and locks, as far as it knows: of which operation, and of which agent.
    pub(super) open: Vec<Open>,
    /// What it has said and not sent, and where its operations end in that.
    pub(super) unsent: BytesMut,
    pub(super) ends: VecDeque<(usize, usize)>,
    /// What was sent and not read, to the broker and by the broker.
    pub(super) sent_and_unread: BytesMut,
    pub(super) unread: BytesMut,
    /// What the client has read, and what the broker has sent, up to the end of a message.
    pub(super) heard: BytesMut,
    pub(super) told: BytesMut,
    pub(super) is_alive: bool,
    pub(super) link: Link,
    /// The key of its session in the broker's turns.
    pub(super) session: Option<usize>,
    /// Its own file, if brokers are killed.
    pub(super) file: Option<(File, PathBuf)>,
    /// Whether it came to this broker before that gives up clients, and was not given up before.
    pub(super) is_in_time: bool,
    /// Whether the broker has something new to read, to find room for, or the end to see.
    pub(super) has_news: bool,
    pub(super) has_ended: bool,
    /// Whether the end of its process was not told yet.
    pub(super) process_has_ended: bool,
    pub(super) awaits_room: bool,
    /// Whether the broker has found no room since it last has written something.
    pub(super) is_full: bool,
    pub(super) was_full: bool,
}

/// A request or lock of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// The operation by which it was made, the last time.
    pub(super) request: usize,
    /// The number by which messages know it.
    pub(super) id: RequestId,
    pub(super) agent: usize,
    pub(super) is_held: bool,
    /// When it was made, by the client's clock.
    pub(super) since: Moment,
}

/// The connection of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Up,
    /// It has begun, and the broker has not answered it.
    Coming,
    Down,
}

impl Client {
    pub(super) fn new(plan: ClientPlan) -> Self {
        Self {
            plan,
            agents: [None; AGENTS],
            next_agent: 1,
            open: Vec::new(),
            unsent: BytesMut::new(),
            ends: VecDeque::new(),
            sent_and_unread: BytesMut::new(),
            unread: BytesMut::new(),
            heard: BytesMut::new(),
            told: BytesMut::new(),
            is_alive: true,
            link: Link::Up,
            session: None,
            file: None,
            is_in_time: true,
            has_news: false,
            has_ended: false,
            process_has_ended: false,
            awaits_room: false,
            is_full: false,
            was_full: false,
        }
    }

    /// The time by its clock.
    pub(super) fn now(&self) -> Moment {
        clock::now().saturating_add_signed(self.plan.ahead)
    }

    /// Whether no broker has given it up, as its file says.
    pub(super) fn stands(&self) -> bool {
        self.file.as_ref().is_none_or(|(file, path)| lock_file::is_at(file, path))
    }

    /// Says a message, which is of this operation.
    pub(super) fn say(&mut self, message: &ToDaemon, operation: Option<usize>) {
        let at = self.now();
        let encoded = ClientCodec::default().encode(Sent { at, message }, &mut self.unsent);
        encoded.expect("the message has a frame");
        self.ends.extend(operation.map(|operation| (self.unsent.len(), operation)));
    }

    /// Sends so many bytes. Returns the operations that are sent with these.
    pub(super) fn send(&mut self, bytes: usize) -> Vec<usize> {
        let bytes = bytes.min(self.unsent.len());
        let sent = self.unsent.split_to(bytes);
        self.has_news |= bytes > 0;
        self.sent_and_unread.extend_from_slice(&sent);
        let mut whole = Vec::new();
        for (end, operation) in std::mem::take(&mut self.ends) {
            match end.checked_sub(bytes) {
                None | Some(0) => whole.push(operation),
                Some(left) => self.ends.push_back((left, operation)),
            }
        }
        whole
    }

    /// Reads so many bytes. Returns the messages that end in these.
    pub(super) fn read(&mut self, bytes: usize) -> Vec<FromDaemon> {
        let bytes = bytes.min(self.unread.len());
        let read = self.unread.split_to(bytes);
        self.has_news |= self.awaits_room && bytes > 0;
        self.heard.extend_from_slice(&read);
        messages(&mut self.heard)
    }

    /// Takes in what the broker sends. Returns the messages that end in this.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<FromDaemon> {
        self.unread.extend_from_slice(bytes);
        self.told.extend_from_slice(bytes);
        messages(&mut self.told)
    }

    /// The agents that it has, each with its number and the message that opens it.
    pub(super) fn introductions(&self) -> Vec<(usize, Agent, ToDaemon)> {
        let agents = self.agents.iter().flatten();
        agents.map(|(agent, number)| (*number, *agent, open_agent(*agent, *number))).collect()
    }

    /// The agent of this place, and the message that opens it if it is new.
    pub(super) fn agent(&mut self, place: usize, new: usize) -> (Agent, usize, Option<ToDaemon>) {
        if let Some((agent, number)) = self.agents[place] {
            return (agent, number, None);
        }
        let agent = self.next_agent;
        self.next_agent += 1;
        self.agents[place] = Some((agent, new));
        (agent, new, Some(open_agent(agent, new)))
    }

    /// The agent of this place has no part in anything any more.
    pub(super) fn forget_agent(&mut self, place: usize) -> Option<(Agent, usize)> {
        let (agent, number) = self.agents[place].take()?;
        self.open.retain(|open| open.agent != number);
        Some((agent, number))
    }

    /// Whether it has begun to end this request.
    pub(super) fn has_finished(&self, request: RequestId) -> bool {
        self.open.iter().all(|open| open.id != request)
    }
}

/// The message that opens the agent that has this number among those of all clients.
fn open_agent(agent: Agent, mut number: usize) -> ToDaemon {
    let mut client_id = [0; 16];
    for byte in &mut client_id {
        *byte = u8::try_from(number % 256).unwrap_or(0);
        number /= 256;
    }
    ToDaemon::OpenAgent { agent, client_id, bucket: "bucket".to_owned() }
}

fn messages(bytes: &mut BytesMut) -> Vec<FromDaemon> {
    let mut codec = ClientCodec::default();
    let next = || codec.decode(bytes).expect("the broker speaks the protocol");
    std::iter::from_fn(next).collect()
}

/// The number by which messages know the request of this operation.
pub(super) fn request_id(operation: usize) -> RequestId {
    RequestId::from_parts(0, operation as u64 + 1)
}

/// The operation of this request.
pub(super) fn operation(request: RequestId) -> usize {
    usize::try_from(request.serial() - 1).unwrap_or(usize::MAX)
}
