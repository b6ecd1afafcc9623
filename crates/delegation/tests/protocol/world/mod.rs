//! A world of clients and a broker, which changes step by step.

mod broker;
mod clients;

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
};

use navlock_delegation::{Look, Word};

/// The test's setting: clients lock one name exclusively.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// How many threads each client has.
    pub(crate) threads: &'static [usize],
    /// How many times each thread locks.
    pub(crate) holds: u8,
    /// How many deaths, hang-ups, thefts and terminations there are at most.
    pub(crate) troubles: u8,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A thread does its next action.
    Run { client: usize, thread: usize },
    /// A thread that wants the lock decides to steal it.
    Steal { client: usize, thread: usize },
    /// The agent of a thread that holds by the slot is terminated. The thread does not notice this.
    Terminate { client: usize, thread: usize },
    /// A client reads the next message.
    Receive { client: usize },
    /// A client without a broker finds one.
    Return { client: usize },
    /// A client dies.
    Die { client: usize },
    /// The broker does its next piece of work.
    Work,
    /// The broker reads the next message of this client, or the end of the connection.
    Serve { client: usize },
    /// The broker hangs up on a client that lives.
    HangUp { client: usize },
    /// The broker dies.
    Crash,
    /// A new broker starts.
    Inherit,
}

impl Step {
    pub(crate) fn is_trouble(self) -> bool {
        !matches!(
            self,
            Self::Run { .. }
                | Self::Receive { .. }
                | Self::Return { .. }
                | Self::Work
                | Self::Serve { .. }
                | Self::Inherit
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    clients: Vec<Client>,
    broker: Option<Broker>,
    troubles: u8,
    /// The current time in nanoseconds. In this world, each take and each grant takes one
    /// nanosecond. In reality, they take longer.
    now: Growing,
    /// The last token that anybody has got.
    last_token: Growing,
}

/// A number that always grows. Worlds that differ only in such numbers count as equal.
#[derive(Clone, Copy, Debug, Default)]
struct Growing(u64);

impl PartialEq for Growing {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Growing {}

impl Hash for Growing {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    lives: bool,
    /// Whether the client is connected to a broker.
    is_linked: bool,
    threads: Vec<Thread>,
    map: Map,
    /// The request for which the slot is reserved, until the request is answered.
    pending_in_slot: Option<u8>,
    last_request: u8,
    inbox: VecDeque<ToClient>,
    outbox: VecDeque<ToBroker>,

    // Only the checks of the test use the fields below.
    /// The count of the last hold by this word.
    last_count: u64,
    /// Whether the broker has taken the word back since its grant.
    was_taken_back: bool,
}

/// What both the client and its broker see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Map {
    word: Look,
    base: Growing,
    /// The request by which the slot was granted.
    request: u8,
    /// How many of the client's locks and requests are in no slot.
    unmapped: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Thread {
    holds_left: u8,
    at: At,
}

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// The thread takes the lock, if it has holds left.
    Start,
    /// The take has failed. The thread gives the word back, so that no take overtakes its request.
    Refused,
    /// The thread tells the broker that this delegation or hold is over. Then it may ask for the
    /// lock.
    Finishing { request: u8, then_ask: bool },
    /// The thread asks for the lock.
    Asking { steals: bool },
    /// The thread has asked, and waits.
    Waiting { request: u8, in_slot: bool },
    /// The thread holds the lock, by the slot or by a message.
    Holding { request: u8, by: Option<u64>, is_lost: bool },
    /// The thread tries to release a hold that has ended already.
    Stale { count: u64 },
    /// The thread has seen that its hold was lost, and makes the slot free.
    Clearing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ToBroker {
    Request { request: u8, in_slot: bool, steals: bool },
    Finish { request: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ToClient {
    /// `is_lost`: another message will say that this lock is lost.
    Granted {
        request: u8,
        is_lost: bool,
    },
    GrantedInSlot {
        request: u8,
    },
    End,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Broker {
    /// The requests that the engine has granted.
    held: Vec<Entry>,
    queue: VecDeque<Entry>,
    /// The work to do before the next message. The next piece is at the end.
    work: Vec<Work>,
    /// The clients that must come back or end before the broker grants anything.
    awaited: Vec<usize>,
    /// The clients that have ended, as far as the broker knows.
    ended: Vec<usize>,
    /// The last token of the engine.
    token: Growing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    client: usize,
    request: u8,
    in_slot: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// The new broker reads a client's map.
    Inherit(usize),
    /// Takes a word back.
    Settle {
        client: usize,
        steals: bool,
    },
    /// Revokes a word.
    Revoke(usize),
    /// Removes all locks and requests of a client.
    Forget(usize),
    /// Raises the engine's token to the current time.
    Raise,
    /// Passes a request to the engine.
    Request(Entry, bool),
    /// Grants a word.
    Grant(Entry, bool),
    Tell(Entry),
    /// Grants the lock to the next waiter, if nobody holds it.
    Next,
}

type Complaint = String;

impl World {
    pub(crate) fn new(setting: Setting) -> Self {
        let thread = Thread { holds_left: setting.holds, at: At::Start };
        let clients = setting.threads.iter().map(|&threads| Client {
            lives: true,
            is_linked: true,
            threads: vec![thread.clone(); threads],
            map: Map {
                word: Look::from_bits(0),
                base: Growing::default(),
                request: 0,
                unmapped: 0,
            },
            pending_in_slot: None,
            last_request: 0,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            last_count: 0,
            was_taken_back: false,
        });
        Self {
            clients: clients.collect(),
            broker: Some(Broker::default()),
            troubles: setting.troubles,
            now: Growing::default(),
            last_token: Growing::default(),
        }
    }

    /// All possible steps.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let trouble = self.troubles > 0;
        // A new broker reads all maps before it accepts any client.
        let looks = |work: &Work| matches!(work, Work::Inherit(_));
        let accepts = self.broker.as_ref().is_some_and(|broker| !broker.work.iter().any(looks));
        for (number, client) in self.clients.iter().enumerate() {
            if client.lives {
                for (thread, state) in client.threads.iter().enumerate() {
                    let wants = state.at == At::Start && state.holds_left > 0;
                    if wants || !matches!(state.at, At::Start | At::Waiting { .. }) {
                        steps.push(Step::Run { client: number, thread });
                    }
                    if trouble && matches!(state.at, At::Holding { by: Some(_), .. }) {
                        steps.push(Step::Terminate { client: number, thread });
                    }
                    if wants && trouble {
                        steps.push(Step::Steal { client: number, thread });
                    }
                }
                if !client.inbox.is_empty() {
                    steps.push(Step::Receive { client: number });
                }
                if !client.is_linked && client.inbox.is_empty() && accepts {
                    steps.push(Step::Return { client: number });
                }
                if trouble {
                    steps.push(Step::Die { client: number });
                }
            }
            if let Some(broker) = &self.broker {
                let ended = !client.lives && !broker.ended.contains(&number);
                let is_ready = broker.work.is_empty();
                if is_ready && (ended || broker.awaited.is_empty() && !client.outbox.is_empty()) {
                    steps.push(Step::Serve { client: number });
                }
                if is_ready && trouble && client.lives && client.is_linked {
                    steps.push(Step::HangUp { client: number });
                }
            }
        }
        match &self.broker {
            None => steps.push(Step::Inherit),
            Some(broker) => {
                if !broker.work.is_empty() {
                    steps.push(Step::Work);
                }
                if trouble {
                    steps.push(Step::Crash);
                }
            }
        }
        steps
    }

    /// What is wrong in this world, in which these steps are possible.
    pub(crate) fn is_wrong(&self, steps: &[Step]) -> Option<Complaint> {
        let owners = |client: &Client| {
            let by_message = client
                .threads
                .iter()
                .filter(|thread| matches!(thread.at, At::Holding { by: None, is_lost: false, .. }));
            let word = client.map.word;
            by_message.count() + usize::from(word.is_idle() || word.is_held())
        };
        let living = self.clients.iter().filter(|client| client.lives);
        if living.clone().map(owners).sum::<usize>() > 1 {
            return Some("two have it at once".into());
        }
        let is_done = |thread: &Thread| *thread == Thread { holds_left: 0, at: At::Start };
        let all_done = || living.clone().flat_map(|client| &client.threads).all(is_done);
        if steps.iter().all(|step| step.is_trouble()) && !all_done() {
            return Some("somebody waits for ever".into());
        }
        None
    }

    /// Applies a step.
    ///
    /// # Errors
    ///
    /// The step has an outcome that it must not have.
    pub(crate) fn take(&mut self, step: Step) -> Result<(), Complaint> {
        if step.is_trouble() {
            self.troubles -= 1;
        }
        match step {
            Step::Run { client, thread } => self.run(client, thread)?,
            Step::Steal { client, thread } => {
                self.clients[client].threads[thread].at = At::Asking { steals: true };
            }
            Step::Terminate { client, thread } => self.clients[client].terminate(thread),
            Step::Receive { client } => self.receive(client)?,
            Step::Return { client } => self.come_back(client)?,
            Step::Die { client } => self.clients[client].lives = false,
            Step::Work => self.work()?,
            Step::Serve { client } => self.serve(client),
            Step::HangUp { client } => {
                self.clients[client].cut();
                let broker = self.broker();
                broker.work = vec![Work::Forget(client), Work::Revoke(client)];
            }
            Step::Crash => {
                self.broker = None;
                self.clients.iter_mut().for_each(Client::cut);
            }
            Step::Inherit => {
                let all = 0..self.clients.len();
                let (living, ended): (Vec<_>, _) =
                    all.partition(|&client| self.clients[client].lives);
                let mut work = vec![Work::Raise];
                work.extend(living.into_iter().map(Work::Inherit));
                self.broker = Some(Broker { work, ended, ..Broker::default() });
            }
        }
        Ok(())
    }

    fn broker(&mut self) -> &mut Broker {
        self.broker.as_mut().expect("this happens with a broker only")
    }

    /// Records that somebody has a hold with this token.
    fn note_token(&mut self, token: u64) -> Result<(), Complaint> {
        self.now.0 += 1;
        if token <= self.last_token.0 {
            return Err(format!("token {token} after {}", self.last_token.0));
        }
        self.last_token.0 = token;
        Ok(())
    }
}

impl Map {
    /// Applies an operation to the word, as the real client or broker would.
    fn word<T>(&mut self, operation: impl FnOnce(&Word) -> T) -> T {
        let word = Word::from(self.word);
        let done = operation(&word);
        self.word = word.look();
        done
    }
}
