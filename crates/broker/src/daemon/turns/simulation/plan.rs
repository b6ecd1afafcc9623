//! What happens in one history: all of it follows from one seed.

use std::{fmt, time::Duration};

use navlock_core::{Mode, host::RequestKind};

use super::super::READ_SIZE;

/// Numbers that look random, and that follow from a seed (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or(0)
    }

    pub(super) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// One history before it happens.
#[expect(clippy::struct_excessive_bools, reason = "they are all independent of each other")]
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) clients: Vec<ClientPlan>,
    /// How much the broker reads at once.
    pub(super) buffer: usize,
    /// Whether the broker has a table of owned names, and whether clients own any.
    pub(super) delegates: bool,
    pub(super) maps: bool,
    /// Whether brokers are killed. Then clients have files of their own.
    pub(super) kills: bool,
    /// Whether connections break though both sides live.
    pub(super) breaks: bool,
    /// Whether clients that have come back do something before their claims are settled.
    pub(super) is_hasty: bool,
    /// Whether somebody looks at the locks.
    pub(super) looks: bool,
    /// Whether system calls are interrupted at times.
    pub(super) interrupts: bool,
    /// For the order in which sockets are named, and for what happens in the middle of a turn.
    pub(super) seed: u64,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ClientPlan {
    /// How far its clock is ahead.
    pub(super) ahead: i64,
    /// Whether the broker knows that.
    pub(super) clock_is_known: bool,
    /// How many bytes its socket keeps for it.
    pub(super) room: usize,
    /// Whether a message is sent at once, or in pieces by later steps.
    pub(super) in_pieces: bool,
}

/// What happens next. A step that cannot be taken, as that of a client that has died, is left out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Request {
        client: usize,
        agent: usize,
        name: usize,
        kind: RequestKind,
    },
    /// Ends the request or lock of this place among the client's.
    Finish {
        client: usize,
        place: usize,
    },
    /// Ends the last one.
    FinishLast {
        client: usize,
    },
    Terminate {
        client: usize,
        agent: usize,
    },
    CloseAgent {
        client: usize,
        agent: usize,
    },
    Query {
        client: usize,
    },
    /// Sends so many more bytes of what it has said.
    Send {
        client: usize,
        bytes: usize,
    },
    /// Reads so many bytes.
    Read {
        client: usize,
        bytes: usize,
    },
    Die {
        client: usize,
        how: Death,
    },
    /// The broker takes a turn, in which so many of the next steps may be taken.
    Turn {
        meanwhile: usize,
    },
    /// The broker is killed, if there is one.
    Kill,
    /// The connection of the client breaks.
    Break {
        client: usize,
    },
    /// The client is stopped, and goes on.
    Stop {
        client: usize,
    },
    Continue {
        client: usize,
    },
    /// The client comes back to the broker, if it has no connection.
    Return {
        client: usize,
    },
    /// So many times [`PAUSE`] pass.
    Pass {
        pauses: usize,
    },
}

/// The shortest time that passes beyond the moments that each step takes.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// How long a broker waits for the clients of the one before. It is as long as with any broker, because clients rely on it:
/// they are given up a second before its end.
pub(super) const RECOVERY_TIME: Duration = Duration::from_secs(10);

/// How the broker learns of a death.
#[derive(Clone, Copy, Debug)]
pub(super) enum Death {
    Stream,
    /// A child of the client keeps its socket open.
    Process,
    Both,
}

/// The most steps of a history, and the most of its requests: what the checker can decide.
const STEPS: usize = 120;
const REQUESTS: usize = 26;
const QUESTIONS: usize = 6;
/// How many agents a client has.
pub(super) const AGENTS: usize = 3;

impl Plan {
    /// The history of this seed. Each seed leaves some kinds of steps and faults out: what all of them hide together,
    /// a few of them show.
    pub(super) fn of(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let maps = seed % 4 == 3 || seed % 8 == 2;
        let most = random.one_of(if maps { &[1, 2, 4] } else { &[4, 4, 11] });
        let count = 2 + random.below(most);
        let names = 1 + random.below(3);
        let agents = 1 + random.below(AGENTS);
        let [steals, queries, ends, deaths, in_pieces, clocks, unknown, full, piles, still, hastes] =
            [0; 11].map(|_| random.one_in(2));
        let breaks = random.one_in(4);
        let kinds = kinds(random, steals);
        let clients = (0..count).map(|_| ClientPlan {
            ahead: if clocks { random.one_of(&[0, 500_000, -400_000, 7]) } else { 0 },
            clock_is_known: !(unknown && random.one_in(3)),
            room: if full { random.one_of(&[40, 100, 1 << 16]) } else { 1 << 16 },
            in_pieces: in_pieces && random.one_in(2),
        });
        let clients: Vec<_> = clients.collect();
        let (mut requests, mut questions, mut dead) = (0, 0, 0);
        let mut steps = Vec::new();
        let length = 20 + random.below(STEPS - 20);
        let turn_in = if piles { 2 + random.below(12) } else { 2 };
        while steps.len() < length {
            if random.one_in(turn_in) {
                steps.push(Step::Turn { meanwhile: random.below(5).saturating_sub(1) });
                continue;
            }
            let client = random.below(count);
            let agent = random.below(agents);
            match random.below(32) {
                0..=10 if requests < REQUESTS => {
                    requests += 1;
                    let (name, kind) = (random.below(names), random.one_of(&kinds));
                    let request = Step::Request { client, agent, name, kind };
                    steps.push(request);
                    if maps && random.one_in(2) {
                        // Whoever has had a lock and takes it again, owns the name.
                        let read = Step::Read { client, bytes: 1 << 16 };
                        let turn = Step::Turn { meanwhile: 0 };
                        steps.push(Step::Send { client, bytes: 1 << 16 });
                        steps.extend([turn, turn, read, Step::FinishLast { client }]);
                        (0..=random.below(3)).for_each(|_| {
                            steps.extend([request, Step::FinishLast { client }]);
                        });
                        steps.pop();
                    }
                }
                11..=19 => steps.push(Step::Finish { client, place: random.below(3) }),
                20..=22 if queries && questions < QUESTIONS => {
                    questions += 1;
                    steps.push(Step::Query { client });
                }
                23 if ends => steps.push(Step::Terminate { client, agent }),
                24 if ends => steps.push(Step::CloseAgent { client, agent }),
                25 if deaths && dead + 1 < count => {
                    dead += 1;
                    let how = random.one_of(&[Death::Stream, Death::Process, Death::Both]);
                    steps.push(Step::Die { client, how });
                }
                26..=28 => {
                    let bytes = random.one_of(&[1, 3, 10, 1 << 16]);
                    steps.push(Step::Send { client, bytes });
                }
                29 if still && random.one_in(2) => steps.push(Step::Stop { client }),
                30 if breaks => steps.push(Step::Break { client }),
                _ => steps.push(Step::Read { client, bytes: random.one_of(&[5, 1 << 16]) }),
            }
        }
        let mut plan = Self {
            clients,
            buffer: random.one_of(if maps {
                &[64, READ_SIZE, READ_SIZE]
            } else {
                &[9, 64, READ_SIZE]
            }),
            delegates: maps || random.one_in(2),
            maps,
            kills: seed % 4 == 2,
            breaks,
            is_hasty: hastes,
            // What owners do in their maps is shown later.
            looks: !maps && (seed % 8 == 5 || seed % 8 == 6),
            interrupts: random.one_in(2),
            seed: random.next(),
            steps,
        };
        plan.go_on(random);
        if plan.kills {
            plan.kill(random);
        }
        plan
    }

    /// Adds that clients that were stopped go on, and that clients whose connections have broken come back.
    fn go_on(&mut self, random: &mut Random) {
        let mut at = 0;
        while let Some(step) = self.steps.get(at) {
            at += 1;
            let next = match *step {
                Step::Stop { client } => Step::Continue { client },
                Step::Break { client } => Step::Return { client },
                _ => continue,
            };
            let most = self.steps.len().min(at + 30);
            self.steps.insert(at + random.below(most + 1 - at), next);
        }
    }

    /// Adds that brokers are killed, and that their clients come back.
    fn kill(&mut self, random: &mut Random) {
        // Who is not told of a theft, because there is no room, may claim the stolen lock.
        self.clients.iter_mut().for_each(|client| client.room = 1 << 16);
        let is_late = random.one_in(8);
        let mut from = 0;
        for _ in 0..=random.below(3) {
            let at = from + random.below(self.steps.len() - from);
            self.steps.insert(at, Step::Kill);
            from = at + 1;
            for client in 0..self.clients.len() {
                if is_late && random.one_in(4) {
                    continue;
                }
                let most = self.steps.len().min(from + 20);
                self.steps.insert(random.below(most + 1 - from) + from, Step::Return { client });
            }
            let pauses = if is_late { 50 } else { 1 + random.below(3) };
            let most = self.steps.len().min(from + 40);
            self.steps.insert(random.below(most + 1 - from) + from, Step::Pass { pauses });
        }
    }
}

/// The kinds of requests in a history.
fn kinds(random: &mut Random, steals: bool) -> Vec<RequestKind> {
    let mut kinds = vec![RequestKind::Wait(Mode::Exclusive)];
    let others = [
        RequestKind::Wait(Mode::Exclusive),
        RequestKind::Wait(Mode::Shared),
        RequestKind::IfAvailable(Mode::Exclusive),
        RequestKind::IfAvailable(Mode::Shared),
    ];
    kinds.extend(others.into_iter().filter(|_| random.one_in(2)));
    if steals {
        kinds.push(RequestKind::Steal);
    }
    kinds
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stream => "the end of its stream is seen",
            Self::Process => "the end of its process is seen, and a child keeps its socket",
            Self::Both => "the ends of its stream and of its process are seen",
        })
    }
}
