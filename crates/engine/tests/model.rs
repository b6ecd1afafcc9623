//! Random histories: the engine does what the reference model does.

use std::{cell::Cell, fmt};

use navlock_engine::{AgentId, Mode, RequestKind, ResourceName};
use navlock_testkit::{Command, Comparison};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{select, subsequence},
    test_runner::{Config, TestRunner},
};

/// The least number of commands that count as a test, so that a slip in the strategy cannot
/// leave one that tests little.
const COMMANDS: usize = 500_000;

#[test]
fn the_engine_does_what_the_model_does_in_random_histories() {
    let config = Config { cases: 10_000, failure_persistence: None, ..Config::default() };
    let commands_run = Cell::new(0);

    let outcome = TestRunner::new(config).run(&history(), |history| {
        let mut comparison = Comparison::default();
        for command in &history.0 {
            comparison.apply(command)?;
        }
        comparison.shows_each_name()?;
        commands_run.set(commands_run.get() + history.0.len());
        Ok(())
    });

    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    assert!(commands_run.get() >= COMMANDS, "{commands_run:?}");
}

/// Long enough for crowds, short enough for names to fall idle and for ids to be told apart.
fn history() -> impl Strategy<Value = History> {
    vec(command(), 1..200).prop_map(History)
}

fn command() -> impl Strategy<Value = Command> {
    // Fewer labels than requests, lest most of them mean requests that have long ended.
    let label = 0..32_usize;
    prop_oneof![
        12 => (label.clone(), agent(), name(), kind())
            .prop_map(|(label, agent, name, kind)| Command::Request { label, agent, name, kind }),
        6 => label.clone().prop_map(Command::Finish),
        3 => label.clone().prop_map(Command::Abort),
        3 => label.prop_map(Command::Release),
        1 => agents().prop_map(Command::Terminate),
    ]
}

fn agent() -> impl Strategy<Value = AgentId> {
    (0..4_u32).prop_map(AgentId::from_index)
}

fn agents() -> impl Strategy<Value = Vec<AgentId>> {
    subsequence([0, 1, 2, 3].map(AgentId::from_index).to_vec(), 1..3)
}

fn name() -> impl Strategy<Value = ResourceName> {
    let units: [&[u16]; 4] = [&[], &[0xD800], &[0xDC00], &[0x64, 0x62]];
    select(units.map(|units| ResourceName::from_utf16(units).expect("no hyphen")).to_vec())
}

fn kind() -> impl Strategy<Value = RequestKind> {
    let mode = || select(&[Mode::Exclusive, Mode::Shared][..]);
    prop_oneof![
        8 => mode().prop_map(RequestKind::Wait),
        2 => mode().prop_map(RequestKind::IfAvailable),
        1 => Just(RequestKind::Steal),
    ]
}

/// Commands that are shown one a line.
#[derive(Clone)]
struct History(Vec<Command>);

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|command| write!(f, "\n    {command:?}"))
    }
}
