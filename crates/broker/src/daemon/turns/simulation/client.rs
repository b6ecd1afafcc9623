//! One client of a history: a client as it is, over a socket that is two buffers.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{Read, Write},
};

use bytes::BytesMut;
use navlock_core::{
    ClientId,
    host::{Backend, Ticket},
};
use navlock_engine::AgentId;
use navlock_platform::socket::Stream;
use navlock_wire::{FromDaemon, decode};

use super::{
    plan::{AGENTS, ClientPlan, Plan},
    returns::key,
};
use crate::{Place, client::simulated::SimulatedClient, clock};

/// The bucket of all clients.
const BUCKET: &str = "bucket";

/// A client with its socket.
#[expect(clippy::struct_excessive_bools, reason = "they are all independent of each other")]
pub(super) struct Client {
    pub(super) plan: ClientPlan,
    /// The client as it is, as long as it lives.
    pub(super) real: Option<SimulatedClient>,
    /// The other end of its socket, as long as there is a broker at that.
    peer: Option<Stream>,
    /// Its agents, each with the number that no other agent of any client has.
    pub(super) agents: [Option<(AgentId, usize)>; AGENTS],
    /// Its requests and locks, as far as it knows: of which operation, and of which agent.
    pub(super) open: Vec<Open>,
    /// The operations of its requests and of what it took itself, by the numbers that the broker knows.
    pub(super) by_serial: BTreeMap<u64, usize>,
    /// What it has said and not sent, and where its operations end in that.
    pub(super) unsent: BytesMut,
    pub(super) ends: VecDeque<(usize, usize)>,
    /// What was sent and not read, to the broker and by the broker.
    pub(super) sent_and_unread: BytesMut,
    pub(super) unread: BytesMut,
    /// What the broker has sent, up to the end of a message.
    pub(super) told: BytesMut,
    pub(super) link: Link,
    /// Whether it is stopped.
    pub(super) is_stopped: bool,
    /// Whether its connection has broken, and the broker has not noticed.
    pub(super) is_broken: bool,
    /// The number of the broker that has known it last.
    pub(super) known_by: Option<u64>,
    /// How many questions it waits for.
    pub(super) asks: usize,
    /// What is complete when its claims are settled.
    pub(super) late: Vec<usize>,
    /// Whether its connection has ended, and it has not noticed.
    pub(super) is_cut_off: bool,
    /// Whether time has passed since it has read.
    pub(super) is_late: bool,
    /// How many events there were when its last connection ended.
    pub(super) left_at: usize,
    /// The key of its session in the broker's turns.
    pub(super) session: Option<usize>,
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
    pub(super) ticket: Ticket,
    pub(super) agent: usize,
    pub(super) is_held: bool,
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
    pub(super) fn new(number: usize, of: ClientPlan, plan: &Plan, place: &Place) -> Self {
        Self {
            plan: of,
            real: Some(SimulatedClient::new(place, key(number), BUCKET, plan.maps)),
            peer: None,
            agents: [None; AGENTS],
            open: Vec::new(),
            by_serial: BTreeMap::new(),
            unsent: BytesMut::new(),
            ends: VecDeque::new(),
            sent_and_unread: BytesMut::new(),
            unread: BytesMut::new(),
            told: BytesMut::new(),
            link: Link::Down,
            is_stopped: false,
            is_broken: false,
            known_by: None,
            asks: 0,
            late: Vec::new(),
            is_cut_off: false,
            is_late: false,
            left_at: 0,
            session: None,
            is_in_time: true,
            has_news: false,
            has_ended: false,
            process_has_ended: false,
            awaits_room: false,
            is_full: false,
            was_full: false,
        }
    }

    pub(super) fn lives(&self) -> bool {
        self.real.is_some()
    }

    /// Whether it has a connection to a broker that lives.
    pub(super) fn has_link(&self) -> bool {
        self.peer.is_some()
    }

    /// Does this in the client, by its clock.
    pub(super) fn with<T>(&mut self, act: impl FnOnce(&SimulatedClient) -> T) -> T {
        let real = self.real.as_ref().expect("whoever does something lives");
        if self.is_late || self.is_cut_off {
            // It may have been stopped, and then it reads before it says of a lock that it holds it.
            deliver(&mut self.peer, &mut self.unread, usize::MAX);
        }
        clock::simulated::shift(self.plan.ahead);
        let done = act(real);
        clock::simulated::shift(-self.plan.ahead);
        done
    }

    /// Takes what the client has written to its socket. Returns whether that was anything.
    pub(super) fn has_said(&mut self) -> bool {
        let before = self.unsent.len();
        let mut buffer = [0; 4096];
        while let Some(read) = self.peer.as_mut().and_then(|peer| peer.read(&mut buffer).ok()) {
            if read == 0 {
                break;
            }
            self.unsent.extend_from_slice(&buffer[..read]);
        }
        self.unsent.len() > before
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

    /// Lets the client read so many bytes.
    pub(super) fn deliver(&mut self, bytes: usize) {
        let is_read = deliver(&mut self.peer, &mut self.unread, bytes);
        self.has_news |= self.awaits_room && is_read;
    }

    /// Takes in what the broker sends. Returns the messages that end in this.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<FromDaemon> {
        self.unread.extend_from_slice(bytes);
        self.told.extend_from_slice(bytes);
        let next = || decode(&mut self.told).expect("the broker speaks the protocol");
        std::iter::from_fn(next).collect()
    }

    /// It begins a new connection.
    pub(super) fn connect(&mut self) {
        let (peer, ours) = Stream::pair().expect("there are descriptors");
        peer.set_nonblocking(true).expect("it is a socket");
        (self.peer, self.link, self.is_cut_off) = (Some(peer), Link::Coming, false);
        self.is_in_time = false;
        self.with(|real| real.connect(ours));
    }

    /// Its connection ends. What the broker has sent it can read; what it has not sent is gone.
    pub(super) fn cut_off(&mut self) {
        self.deliver(usize::MAX);
        (self.peer, self.link, self.is_cut_off) = (None, Link::Down, true);
        for bytes in [&mut self.unsent, &mut self.unread, &mut self.told] {
            bytes.clear();
        }
    }

    /// The broker has no part in it any more.
    pub(super) fn leave(&mut self) {
        (self.session, self.is_broken, self.has_ended) = (None, false, false);
        (self.has_news, self.process_has_ended, self.awaits_room) = (false, false, false);
        (self.is_full, self.was_full) = (false, false);
        self.sent_and_unread.clear();
    }

    /// The agent of this place, which is made if it is new.
    pub(super) fn agent(&mut self, place: usize, new: usize) -> (AgentId, usize) {
        if let Some(known) = self.agents[place] {
            return known;
        }
        let agent = self.with(|real| real.backend().open_agent(client_id(new)));
        self.agents[place] = Some((agent, new));
        (agent, new)
    }

    /// The agent of this place has no part in anything any more.
    pub(super) fn forget_agent(&mut self, place: usize) -> Option<(AgentId, usize)> {
        let (agent, number) = self.agents[place].take()?;
        self.open.retain(|open| open.agent != number);
        Some((agent, number))
    }

    /// Whether it has begun to end this request.
    pub(super) fn has_finished(&self, request: usize) -> bool {
        self.open.iter().all(|open| open.request != request)
    }
}

fn deliver(peer: &mut Option<Stream>, unread: &mut BytesMut, bytes: usize) -> bool {
    let bytes = unread.split_to(bytes.min(unread.len()));
    let Some(peer) = peer else { return false };
    // There is room for more than a history has. The client may have closed its end.
    _ = peer.write_all(&bytes);
    !bytes.is_empty()
}

/// The id of the agent that has this number among those of all clients.
fn client_id(mut number: usize) -> ClientId {
    let mut client_id = [0; 16];
    for byte in &mut client_id {
        *byte = u8::try_from(number % 256).unwrap_or(0);
        number /= 256;
    }
    ClientId::from_bytes(client_id)
}
