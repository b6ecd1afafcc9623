//! Random histories: the engine does what the reference model does.

use std::cell::Cell;

use navlock_engine::{AgentId, Mode, RequestKind, ResourceName};
use navlock_testkit::{Command, Duet};
use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
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
        let mut duet = Duet::default();
        for command in &history {
            duet.apply(command)?;
        }
        commands_run.set(commands_run.get() + history.len());
        Ok(())
    });

    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    assert!(commands_run.get() >= COMMANDS, "{commands_run:?}");
}

/// Long enough for crowds, short enough for names to fall idle and for ids to be told apart.
fn history() -> impl Strategy<Value = Vec<Command>> {
    vec(command(), 1..200)
}

fn command() -> impl Strategy<Value = Command> {
    // Far more than are ever made: numbers go around, and shrinking brings them down to what is
    // meant.
    let number = 0..10_000_usize;
    prop_oneof![
        12 => (agent(), name(), kind())
            .prop_map(|(agent, name, kind)| Command::Request { agent, name, kind }),
        6 => number.clone().prop_map(Command::Finish),
        3 => number.clone().prop_map(Command::Abort),
        3 => number.prop_map(Command::Release),
        1 => agent().prop_map(Command::Terminate),
    ]
}

fn agent() -> impl Strategy<Value = AgentId> {
    (0..4_u32).prop_map(AgentId::from_index)
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
