//! The events so far, as far as the judge needs them.

use std::collections::BTreeMap;

use navlock::Mode;

use crate::events::now;

/// A time that has begun and may have ended, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
}

impl Interval {
    pub(crate) fn begin() -> Self {
        Self { from: now(), to: None }
    }

    pub(crate) fn end(&mut self) {
        self.to = self.to.or_else(|| Some(now()));
    }

    /// How much of the interval lies between these moments.
    pub(crate) fn within(&self, from: u64, to: u64) -> u64 {
        self.to.unwrap_or(u64::MAX).min(to).saturating_sub(self.from.max(from))
    }
}

/// The kinds of workers.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A `navlock run`.
    Run { names: Vec<String>, closes: bool, steals: bool, in_shell: bool, may_give_up: bool },
    /// A program that uses the library.
    Client,
    /// A client that takes a few names so often that it owns them, unless `delegates` is false.
    Owner { delegates: bool },
    /// A worker that does not ask for the lock that it claims to hold.
    Rogue,
}

/// A worker, with the command that it has started.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) machine: usize,
    pub(crate) kind: Kind,
    /// The `navlock run`, or the client.
    pub(crate) pid: i32,
    pub(crate) born: u64,
    pub(crate) killed: Option<u64>,
    /// Whether it was told to end, by SIGTERM.
    pub(crate) is_told: bool,
    pub(crate) stops: Vec<Interval>,
    /// The command's process, for a `navlock run`.
    pub(crate) command: Option<i32>,
    pub(crate) command_killed: Option<u64>,
    pub(crate) command_stops: Vec<Interval>,
    /// When the worker's own process ended.
    pub(crate) ended: Option<u64>,
}

impl Instance {
    pub(crate) fn is_orphaned(&self, at: u64) -> bool {
        matches!(self.kind, Kind::Run { .. }) && self.killed.is_some_and(|killed| killed <= at)
    }

    pub(crate) fn closes(&self) -> bool {
        matches!(self.kind, Kind::Run { closes: true, .. })
    }
}

/// A time in which a process believed to hold a lock.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) instance: u64,
    pub(crate) name: String,
    pub(crate) token: u64,
    pub(crate) pid: i32,
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
    /// Whether the holder said at its end that it had lost the lock.
    pub(crate) is_lost: bool,
}

/// A disturbance of more than one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A broker was killed.
    BrokerKilled,
    /// A broker was stopped, or a process that was about to become one, or a process that was starting one.
    BrokerStopped,
    DiskFull,
    FilesRemoved,
    /// The machine was cut off from the store, or the whole store was away.
    Cut,
    /// The store has forgotten everything, at this moment.
    Forgotten,
    /// A member of etcd was killed, stopped or replaced.
    Member,
    /// Etcd had no room.
    EtcdFull,
}

/// Something that may be wrong. It is judged once it is known what was disturbed.
#[derive(Clone, Debug)]
pub(crate) enum Suspicion {
    /// The holder began to hold while the process `other` held.
    Conflict { holder: u64, name: String, token: u64, other: i32 },
    /// The holder's token is not larger than that of `others`, which is `other`.
    Token { holder: u64, name: String, token: u64, other: u64, others: u64 },
    /// The holder began to hold while the process `other`, which was killed, had not ended.
    Dying { holder: u64, name: String, other: i32 },
    /// The holder waited for the name, and `other` was granted it so often meanwhile.
    Overtaken { holder: u64, name: String, times: u64, other: u64 },
    /// The worker has seen what must never be.
    Never { instance: u64, said: String },
    /// The worker was told that it has lost a lock. The name comes first.
    Loss { instance: u64, said: String },
    /// The worker was told that it cannot have what it asked for.
    Failure { instance: u64, said: String },
}

impl Suspicion {
    /// The suspicion in a few words.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "two at once",
            Self::Token { .. } => "a token that comes late",
            Self::Dying { .. } => "one beside another that was killed",
            Self::Overtaken { .. } => "overtaken",
            Self::Never { .. } => "what must never be",
            Self::Loss { .. } => "told that it has lost",
            Self::Failure { .. } => "failed",
        }
    }
}

#[derive(Default)]
pub(crate) struct History {
    pub(crate) instances: BTreeMap<u64, Instance>,
    pub(crate) holds: Vec<Hold>,
    /// Each trouble, its machine unless all are affected, and its time.
    pub(crate) troubles: Vec<(Trouble, Option<usize>, Interval)>,
    pub(crate) suspicions: Vec<(u64, Suspicion)>,
    /// For each name the largest token of an exclusive holder, and the largest of any holder, each with its
    /// instance.
    largest: BTreeMap<String, [(u64, u64); 2]>,
    pub(crate) grants: u64,
    /// The thefts: when, by which instance, of which name.
    pub(crate) steals: Vec<(u64, u64, String)>,
    /// How often an owner has asked for a name that others took in a loop, by the most grants that one of
    /// them got meanwhile.
    pub(crate) asked: BTreeMap<u64, u64>,
    /// How many locks those names were that were seen to be owned.
    pub(crate) owned: u64,
    pub(crate) commands: u64,
}

impl History {
    /// Takes in what the workers have written.
    pub(crate) fn take_in(&mut self, lines: &str) {
        for line in lines.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let number = |nth: usize| words.get(nth).and_then(|word| word.parse::<u64>().ok());
            let (Some(at), Some(instance)) = (number(0), number(2)) else { continue };
            match words[1] {
                "command" => {
                    let pid = number(3).and_then(|pid| i32::try_from(pid).ok());
                    if let Some(instance) = self.instances.get_mut(&instance) {
                        instance.command = pid;
                        self.commands += 1;
                    }
                }
                "begins" => self.begins(at, instance, &words[3..]),
                "ends" => {
                    let [_, _, _, name, _, token, _, how] = words[..] else { continue };
                    let is_it = |hold: &&mut Hold| {
                        hold.instance == instance
                            && hold.name == name
                            && token.parse() == Ok(hold.token)
                            && hold.to.is_none()
                    };
                    if let Some(hold) = self.holds.iter_mut().rev().find(is_it) {
                        hold.to = Some(at);
                        hold.is_lost = how == "lost";
                    }
                    if how == "lost" {
                        let said = format!("{name} {token}");
                        self.suspicions.push((at, Suspicion::Loss { instance, said }));
                    }
                }
                what @ ("conflict" | "dying") => {
                    let [_, _, _, name, _, token, _, other] = words[..] else { continue };
                    let (Ok(token), Ok(other)) = (token.parse(), other.parse()) else { continue };
                    let (holder, name) = (instance, name.to_owned());
                    let suspicion = match what {
                        "conflict" => Suspicion::Conflict { holder, name, token, other },
                        _ => Suspicion::Dying { holder, name, other },
                    };
                    self.suspicions.push((at, suspicion));
                }
                "token" => {
                    let [_, _, _, name, ..] = words[..] else { continue };
                    let [Some(token), Some(other), Some(others)] = [4, 5, 6].map(number) else {
                        continue;
                    };
                    let (holder, name) = (instance, name.to_owned());
                    let suspicion = Suspicion::Token { holder, name, token, other, others };
                    self.suspicions.push((at, suspicion));
                }
                "steals" => self.steals.push((at, instance, words[3..].join(" "))),
                "burst" => self.grants += number(4).unwrap_or(0),
                "owns" => self.owned += number(4).unwrap_or(0),
                "behind" => {
                    let (Some(times), Some(other)) = (number(4), number(5)) else { continue };
                    *self.asked.entry(times).or_default() += 1;
                    if times > 1 {
                        let (holder, name) = (instance, words[3].to_owned());
                        let suspicion = Suspicion::Overtaken { holder, name, times, other };
                        self.suspicions.push((at, suspicion));
                    }
                }
                what @ ("failed" | "lost" | "never") => {
                    let said = words[3..].join(" ");
                    let suspicion = match what {
                        "failed" => Suspicion::Failure { instance, said },
                        "lost" => Suspicion::Loss { instance, said },
                        _ => Suspicion::Never { instance, said },
                    };
                    self.suspicions.push((at, suspicion));
                }
                _ => {}
            }
        }
    }

    fn begins(&mut self, at: u64, instance: u64, words: &[&str]) {
        let [name, mode, token, pid, _] = words else { return };
        let (Ok(token), Ok(pid)) = (token.parse::<u64>(), pid.parse()) else { return };
        let mode = if *mode == "shared" { Mode::Shared } else { Mode::Exclusive };
        self.grants += 1;
        let name = (*name).to_owned();
        let largest = self.largest.entry(name.clone()).or_default();
        let (other, others) = largest[usize::from(mode == Mode::Exclusive)];
        if token <= other {
            let name = name.clone();
            let token = Suspicion::Token { holder: instance, name, token, other, others };
            self.suspicions.push((at, token));
            // Report it once, and not for every later holder too.
            *largest = [(0, 0); 2];
        }
        // A reader's token must be larger than those of all writers before, a writer's token larger than all
        // before.
        if mode == Mode::Exclusive {
            largest[0] = largest[0].max((token, instance));
        }
        largest[1] = largest[1].max((token, instance));
        let (to, is_lost) = (None, false);
        self.holds.push(Hold { instance, name, token, pid, from: at, to, is_lost });
    }

    /// Notes that a lasting trouble is over, and that its consequences last for so many microseconds.
    pub(crate) fn over(&mut self, trouble: Trouble, machine: Option<usize>, after: u64) {
        for (found, whose, during) in &mut self.troubles {
            if *found == trouble && *whose == machine && during.to.is_none() {
                during.to = Some(now() + after);
            }
        }
    }

    /// Forgets the workers that have ended, all holds and thefts, and the troubles that have been over for a
    /// minute.
    pub(crate) fn forget(&mut self) {
        self.instances.retain(|_, instance| instance.ended.is_none());
        self.holds.clear();
        self.steals.clear();
        let recent = now().saturating_sub(60_000_000);
        self.troubles.retain(|(_, _, during)| during.to.is_none_or(|to| to > recent));
    }
}
