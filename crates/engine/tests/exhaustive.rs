//! Every short history: the engine does what the reference model does.
//!
//! One name gets one command more than two names, as most of what can go wrong goes wrong within
//! one. `NAVLOCK_EXHAUSTIVE_DEPTH=6` goes one command deeper in both, which takes minutes.

use std::{env, thread};

use navlock_engine::{AgentId, Mode, RequestKind, ResourceName};
use navlock_testkit::{Command, Comparison};

/// How many commands the longest histories of two names have.
const DEPTH: usize = 5;

const AGENTS: [AgentId; 2] = [AgentId::from_index(0), AgentId::from_index(1)];
/// In how many ways agents can end: the one, the other, both as one.
const ENDS: usize = 3;
const NAMES: [&str; 2] = ["", "db"];
const KINDS: [RequestKind; 5] = [
    RequestKind::Wait(Mode::Exclusive),
    RequestKind::Wait(Mode::Shared),
    RequestKind::IfAvailable(Mode::Exclusive),
    RequestKind::IfAvailable(Mode::Shared),
    RequestKind::Steal,
];
const ENDINGS: [fn(usize) -> Command; 3] = [Command::Finish, Command::Abort, Command::Release];

#[test]
fn the_engine_does_what_the_model_does_in_every_short_history_of_two_names() {
    explore(&NAMES, depth());
}

#[test]
fn the_engine_does_what_the_model_does_in_every_short_history_of_one_name() {
    explore(&NAMES[..1], depth() + 1);
}

fn depth() -> usize {
    env::var("NAVLOCK_EXHAUSTIVE_DEPTH")
        .map_or(DEPTH, |depth| depth.parse().expect("NAVLOCK_EXHAUSTIVE_DEPTH is a number"))
}

fn explore(names: &[&str], depth: usize) {
    let possible: Vec<_> = (0..depth).map(|made| possible(names, made)).collect();
    // The shortest first, so that a failure shows no command that it does not need.
    for depth in 1..=depth {
        let explored = History::default().explore(&Comparison::default(), &possible, depth);
        // Lest a slip leave a search that sees little.
        assert_eq!(explored, histories(names, depth));
    }
}

/// All that can happen when this many requests were made: their labels are their numbers.
fn possible(names: &[&str], requests_made: usize) -> Vec<Command> {
    let ends: [&[AgentId]; ENDS] = [&AGENTS[..1], &AGENTS[1..], &AGENTS];
    let mut possible: Vec<_> = ends.map(|agents| Command::Terminate(agents.to_vec())).into();
    for agent in AGENTS {
        for &name in names {
            let name = ResourceName::try_from(name).expect("no hyphen");
            possible.extend(KINDS.map(|kind| Command::Request {
                label: requests_made,
                agent,
                name: name.clone(),
                kind,
            }));
        }
    }
    for label in 0..requests_made {
        possible.extend(ENDINGS.map(|ending| ending(label)));
    }
    possible
}

/// Whether a history may begin so: with the first agent and the first name only. To the engine a
/// name is equal to another or is not, and an agent is a place in a table, so that every other
/// history is one of these with the agents or the names exchanged.
fn may_come_first(command: &Command) -> bool {
    match command {
        Command::Request { agent, name, .. } => {
            *agent == AGENTS[0] && name.as_str() == Some(NAMES[0])
        }
        Command::Terminate(agents) => **agents == AGENTS[..1],
        Command::Finish(_) | Command::Abort(_) | Command::Release(_) => false,
    }
}

/// How many histories there are, calculated.
fn histories(names: &[&str], depth: usize) -> u64 {
    fn after(requests_made: usize, left: usize, requests: usize) -> u64 {
        if left == 0 {
            return 1;
        }
        let others = ENDS + ENDINGS.len() * requests_made;
        requests as u64 * after(requests_made + 1, left - 1, requests)
            + others as u64 * after(requests_made, left - 1, requests)
    }
    let requests = AGENTS.len() * names.len() * KINDS.len();
    // Of the first command's agents and names one each: see `may_come_first`.
    KINDS.len() as u64 * after(1, depth - 1, requests) + after(0, depth - 1, requests)
}

/// What has happened so far. Printed when a panic ends it, be it the engine's own.
#[derive(Default)]
struct History<'a>(Vec<&'a Command>);

impl<'a> History<'a> {
    /// Goes on in every possible way by `left` commands, depth first; returns in how many.
    fn explore(
        &mut self,
        comparison: &Comparison,
        possible: &'a [Vec<Command>],
        left: usize,
    ) -> u64 {
        if left == 0 {
            return 1;
        }
        let mut explored = 0;
        for command in &possible[comparison.requests_made()] {
            if self.0.is_empty() && !may_come_first(command) {
                continue;
            }
            self.0.push(command);
            let mut comparison = comparison.clone();
            if let Err(divergence) = comparison.apply(command) {
                panic!("{divergence}");
            }
            explored += self.explore(&comparison, possible, left - 1);
            self.0.pop();
        }
        explored
    }
}

impl Drop for History<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("after");
            for command in &self.0 {
                eprintln!("    {command:?}");
            }
        }
    }
}
