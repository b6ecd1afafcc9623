//! Every short history of two names and two agents: the engine does what the reference model does.

use std::{env, thread};

use navlock_engine::{AgentId, Mode, RequestKind, ResourceName};
use navlock_testkit::{Command, Duet};

/// How many commands a history has, two at least; `NAVLOCK_EXHAUSTIVE_DEPTH` overrides it.
const DEPTH: usize = 5;

const AGENTS: [AgentId; 2] = [AgentId::from_index(0), AgentId::from_index(1)];
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
fn the_engine_does_what_the_model_does_in_every_short_history() {
    let depth = env::var("NAVLOCK_EXHAUSTIVE_DEPTH")
        .map_or(DEPTH, |depth| depth.parse().expect("NAVLOCK_EXHAUSTIVE_DEPTH is a number"));
    let commands = commands(depth);
    let beginnings = beginnings(&commands);
    let threads = thread::available_parallelism().map_or(1, usize::from);

    let explored: u64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let share = beginnings.iter().skip(worker).step_by(threads);
                scope.spawn(|| {
                    share.map(|beginning| explore_from(beginning, &commands, depth)).sum::<u64>()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("engine and model agree")).sum()
    });

    // Lest a slip leave a search that sees little.
    assert_eq!(explored, histories(depth));
}

/// All that can happen: what always can, then the endings of one request after the other, so that
/// what can happen when fewer requests were made comes first.
fn commands(requests: usize) -> Vec<Command> {
    let mut commands: Vec<_> = AGENTS.map(Command::Terminate).into();
    for agent in AGENTS {
        for name in NAMES {
            let name = ResourceName::try_from(name).expect("no hyphen");
            commands.extend(KINDS.map(|kind| Command::Request { agent, name: name.clone(), kind }));
        }
    }
    for number in 0..requests {
        commands.extend(ENDINGS.map(|ending| ending(number)));
    }
    commands
}

/// The commands that are possible when so many requests were made.
fn possible(commands: &[Command], requests_made: usize) -> &[Command] {
    &commands[..ALWAYS + ENDINGS.len() * requests_made]
}

const REQUESTS: usize = AGENTS.len() * NAMES.len() * KINDS.len();
const ALWAYS: usize = AGENTS.len() + REQUESTS;

/// The first two commands of every history, which the threads share out.
///
/// Only the first agent and the first name may begin. To the engine a name is equal to another or
/// is not, and an agent is a place in a table, so that every other history is one of these with
/// the two names or the two agents exchanged.
fn beginnings(commands: &[Command]) -> Vec<[&Command; 2]> {
    let may_be_first = |command: &&Command| match command {
        Command::Request { agent, name, .. } => {
            *agent == AGENTS[0] && name.as_str() == Some(NAMES[0])
        }
        Command::Terminate(agent) => *agent == AGENTS[0],
        _ => false,
    };
    let mut beginnings = Vec::new();
    for first in commands.iter().filter(may_be_first) {
        let requests_made = usize::from(matches!(first, Command::Request { .. }));
        for second in possible(commands, requests_made) {
            beginnings.push([first, second]);
        }
    }
    beginnings
}

/// Lets every history that begins so happen; returns how many there are.
fn explore_from(beginning: &[&Command], commands: &[Command], depth: usize) -> u64 {
    let mut duet = Duet::default();
    let mut history = History::default();
    for command in beginning {
        history.go_on(&mut duet, command);
    }
    explore(&duet, &mut history, commands, depth - beginning.len())
}

/// Lets all that is possible happen, `left` times, depth first.
fn explore<'a>(
    duet: &Duet,
    history: &mut History<'a>,
    commands: &'a [Command],
    left: usize,
) -> u64 {
    if left == 0 {
        return 1;
    }
    let mut explored = 0;
    for command in possible(commands, duet.requests_made()) {
        let mut duet = duet.clone();
        history.go_on(&mut duet, command);
        explored += explore(&duet, history, commands, left - 1);
        history.0.pop();
    }
    explored
}

/// How many histories there are, calculated.
fn histories(depth: usize) -> u64 {
    fn after(requests_made: usize, left: usize) -> u64 {
        if left == 0 {
            return 1;
        }
        let other = AGENTS.len() + ENDINGS.len() * requests_made;
        REQUESTS as u64 * after(requests_made + 1, left - 1)
            + other as u64 * after(requests_made, left - 1)
    }
    KINDS.len() as u64 * after(1, depth - 1) + after(0, depth - 1)
}

/// What has happened so far; printed when it ends in a panic, the engine's own included.
#[derive(Default)]
struct History<'a>(Vec<&'a Command>);

impl<'a> History<'a> {
    fn go_on(&mut self, duet: &mut Duet, command: &'a Command) {
        self.0.push(command);
        if let Err(divergence) = duet.apply(command) {
            panic!("{divergence}");
        }
    }
}

impl Drop for History<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("after {:#?}", self.0);
        }
    }
}
