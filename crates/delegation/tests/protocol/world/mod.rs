//! Clients and a broker, step by step.

mod broker;
mod clients;

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
};

use navlock_delegation::{Look, Word};

/// One name, locked exclusively by clients of some threads each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// How many threads each client has.
    pub(crate) threads: &'static [usize],
    /// How many times each of them locks.
    pub(crate) holds: u8,
    /// How many deaths, hang-ups, thefts and terminations there are at most.
    pub(crate) troubles: u8,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A thread does the next thing that it has to do.
    Run { client: usize, thread: usize },
    /// A thread that wants the lock sends a request that steals it.
    Steal { client: usize, thread: usize },
    /// The agent of a thread that holds by the slot is terminated. The thread does not notice.
    Terminate { client: usize, thread: usize },
    /// A client reads the next message.
    Hear { client: usize },
    /// A client without a broker finds one.
    Return { client: usize },
    /// A client dies.
    Die { client: usize },
    /// The broker does the next thing that it has to do.
    Work,
    /// The broker reads the next message of this client, or that the connection has ended.
    Serve { client: usize },
    /// The broker hangs up on a client that lives.
    HangUp { client: usize },
    /// The broker dies.
    Crash,
    /// A new broker begins.
    Inherit,
}

impl Step {
    pub(crate) fn is_trouble(self) -> bool {
        !matches!(
            self,
            Self::Run { .. }
                | Self::Hear { .. }
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
    /// Each take and each grant takes a nanosecond, which is less than they do.
    now: Growing,
    /// The last token that anybody got.
    last_token: Growing,
}

/// A number that grows for ever, so that two worlds are not told apart by it.
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
    /// There is a broker at the other end.
    is_linked: bool,
    threads: Vec<Thread>,
    map: Map,
    /// The request for which the slot is set apart, until it is answered.
    pending_in_slot: Option<u8>,
    last_request: u8,
    inbox: VecDeque<ToClient>,
    outbox: VecDeque<ToBroker>,

    // What nobody knows but who watches.
    /// The last hold by this word.
    last_count: u64,
    /// The broker has taken the word back since it was granted.
    was_taken_back: bool,
}

/// What the client and its broker both see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Map {
    word: Look,
    base: Growing,
    /// The request by which the slot was granted.
    request: u8,
    /// What is in no slot.
    unmapped: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Thread {
    holds_left: u8,
    at: At,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// It would take the lock.
    Start,
    /// It could not. What it asks for must not be overtaken.
    Refused,
    /// It has to say that this delegation, or hold, is over; then it asks.
    Finishing { request: u8, then_ask: bool },
    /// It will ask.
    Asking { steals: bool },
    /// It has asked.
    Waiting { request: u8, in_slot: bool },
    /// It holds, by the slot or by a message.
    Holding { request: u8, by: Option<u64>, is_lost: bool },
    /// It would release a hold that was ended without it.
    Stale { count: u64 },
    /// It has seen that its hold was lost, and makes the slot free.
    Clearing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ToBroker {
    Request { request: u8, in_slot: bool, steals: bool },
    Finish { request: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ToClient {
    /// `is_lost`: the message that it is lost follows.
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
    /// Those granted, in the engine's eyes.
    held: Vec<Entry>,
    queue: VecDeque<Entry>,
    /// What is to be done before the next message; the next at the end.
    work: Vec<Work>,
    /// Those without whom it grants nothing.
    awaited: Vec<usize>,
    /// Those that have ended.
    ended: Vec<usize>,
    /// The engine's last.
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
    /// The next broker looks at a client's map.
    Inherit(usize),
    /// Takes a word back.
    Settle {
        client: usize,
        steals: bool,
    },
    /// Gives a word up.
    Revoke(usize),
    /// Frees all that a client had.
    Forget(usize),
    /// No token below this moment.
    Raise,
    /// Lets the engine see a request.
    Request(Entry, bool),
    /// Grants a word.
    Grant(Entry, bool),
    Tell(Entry),
    /// Grants to who waits.
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

    /// All that can happen.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let trouble = self.troubles > 0;
        // The next broker looks at all maps before it hears anybody.
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
                    steps.push(Step::Hear { client: number });
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

    /// What must never be, of a world in which this can happen.
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

    /// Lets this happen.
    ///
    /// # Errors
    ///
    /// If it must not come out as it does.
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
            Step::Hear { client } => self.hear(client)?,
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

    /// Somebody has a hold with this token.
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
    /// Does something to the word, as the real one would.
    fn word<T>(&mut self, operation: impl FnOnce(&Word) -> T) -> T {
        let word = Word::from(self.word);
        let done = operation(&word);
        self.word = word.look();
        done
    }
}
