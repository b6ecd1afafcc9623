//! A simulation of the broker: its sessions and their turns as they are, and beside them clients, sockets and time
//! that follow from one seed.
//!
//! `cargo xtask simulate` runs it, and `--seed` runs one history again. The section "Simulation" of the crate's
//! `ARCHITECTURE.md` says what is simulated, and what is not.

mod checker;
mod client;
mod history;
mod plan;
mod smaller;
mod world;

use std::{env, sync::Arc};

use bytes::BytesMut;
use navlock_core::{FencingToken, Mode, host::RequestKind};

use self::{
    checker::Verdict,
    history::History,
    plan::{ClientPlan, Plan, Step},
    world::World,
};
use super::{
    super::{
        delegations::Delegations, options::Options, session::Session, state::Daemon, user_agent,
    },
    State,
    times::Times,
    wanted::Wanted,
};
use crate::{client_files::Found, clock};

/// How many histories there are if nobody says otherwise.
const HISTORIES: u64 = 2000;

/// When a history begins, on the clock of the machine.
const BEGIN: u64 = 1_000_000_000;

/// How many rounds of turns it may take after the last fault until everybody is served.
const ROUNDS: usize = 200;

/// Why a history is wrong, and what has happened in it.
struct Failure {
    why: String,
    history: History,
}

/// Lets the history of this plan happen. Returns whether the checker could decide that it is right.
fn run(plan: &Plan) -> Result<bool, Failure> {
    clock::simulated::set(BEGIN);
    let world = World::new(plan);
    let delegations = plan.delegates.then(|| Delegations::new(0));
    let user_agent = user_agent(FencingToken::new(1));
    let found = Found::default();
    let daemon = Arc::new(Daemon::new(user_agent, &Options::default(), None, &found, delegations));
    let wanted = Arc::new(Wanted::default());
    let mut state = State::new(Arc::clone(&daemon), wanted, world.clone());
    state.buffer = Vec::with_capacity(plan.buffer);
    for (number, client) in plan.clients.iter().enumerate() {
        let session = Session::new(daemon.enter(None, false, None), Arc::clone(&daemon));
        let ahead = client.clock_is_known.then_some(client.ahead);
        state.enter(session, None, (world.socket(number), BytesMut::new()), Times::new(ahead));
    }
    loop {
        let Some(step) = world.get().steps.pop_front() else { break };
        let Step::Turn { meanwhile } = step else {
            world.get().take(step);
            continue;
        };
        turn(&mut state, &world, meanwhile);
    }
    let is_served = (0..ROUNDS).any(|_| {
        turn(&mut state, &world, 0);
        come_to_an_end(&world);
        !is_due(&state, &world) && world.get().clients.iter().all(|client| client.open.is_empty())
    });
    drop(state);
    clock::simulated::set(0);
    let mut world = world.get();
    let (history, failure) = (std::mem::take(&mut world.history), world.failure.take());
    let failed = |why, history| Err(Failure { why, history });
    match failure {
        Some(why) => return failed(why, history),
        None if !is_served => return failed("somebody is not served".to_owned(), history),
        None => {}
    }
    match checker::check(&history) {
        Verdict::Linearizable => Ok(true),
        Verdict::Unknown => Ok(false),
        Verdict::Not { event } => {
            let event = history.events.get(event);
            failed(format!("no order of what was done explains that: {event:?}"), history)
        }
    }
}

fn is_due(state: &State<World>, world: &World) -> bool {
    state.is_left() || world.get().has_news()
}

/// Takes a turn, if there is anything to do.
fn turn(state: &mut State<World>, world: &World, meanwhile: usize) {
    if is_due(state, world) {
        let mut inner = world.get();
        inner.begin_turn();
        inner.meanwhile = meanwhile;
        drop(inner);
        state.turn();
    }
}

/// All clients read, send and release what they have.
fn come_to_an_end(world: &World) {
    let world = &mut *world.get();
    for client in 0..world.clients.len() {
        if !world.clients[client].is_alive {
            continue;
        }
        world.send(client, usize::MAX);
        world.read(client, usize::MAX);
        let is_held = |world: &mut world::Inner| {
            world.clients[client].open.iter().position(|open| open.is_held)
        };
        while let Some(place) = is_held(world) {
            world.finish(client, place);
        }
        world.send(client, usize::MAX);
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

#[test]
fn every_history_is_one_that_clients_of_one_lock_manager_could_see() {
    let first = number("NAVLOCK_SIMULATE_SEED").unwrap_or(0);
    let histories = number("NAVLOCK_SIMULATE_HISTORIES").unwrap_or(HISTORIES);
    let mut undecided = 0;
    for seed in first..first + histories {
        let plan = Plan::of(seed);
        match run(&plan) {
            Ok(is_decided) => {
                undecided += u64::from(!is_decided);
                if !is_decided {
                    eprintln!("seed {seed}: too long to decide");
                }
            }
            Err(failure) => {
                let (plan, Failure { why, history }) = smaller::smaller(plan, failure);
                let clients = plan.clients.iter().enumerate();
                let clients: Vec<_> =
                    clients.map(|(n, of)| format!("client {n}: {of:?}")).collect();
                let (clients, words) = (clients.join("\n"), history.words.join("\n"));
                panic!("seed {seed}: {why}\n{words}\n{clients}");
            }
        }
    }
    eprintln!("{histories} histories, {undecided} of which were too long to decide");
    assert!(undecided * 20 <= histories, "too many histories are undecided");
}

/// The history of these steps, without faults.
fn plain(steps: Vec<Step>) -> Result<bool, String> {
    let client = ClientPlan { ahead: 0, clock_is_known: true, room: 1 << 16, in_pieces: false };
    let (clients, buffer) = (vec![client; 2], super::READ_SIZE);
    let plan = Plan { clients, buffer, delegates: false, interrupts: false, seed: 0, steps };
    run(&plan).map_err(|failure| failure.why)
}

#[test]
fn who_is_robbed_is_told_before_a_thief_that_has_said_something_before_or_robs_itself_as_well() {
    let ask = |client, kind| Step::Request { client, agent: 0, name: 0, kind };
    let turn = Step::Turn { meanwhile: 0 };
    let (steal, share) = (RequestKind::Steal, RequestKind::Wait(Mode::Shared));
    assert_eq!(plain(vec![ask(0, steal), ask(1, steal), turn]), Ok(true));
    assert_eq!(plain(vec![ask(0, share), ask(1, share), turn, ask(0, steal), turn]), Ok(true));
}

#[test]
fn a_seed_decides_everything() {
    for seed in 0..20 {
        let plan = Plan::of(seed);
        let words = || run(&plan).map(|_| ()).map_err(|failure| failure.history.words);
        assert_eq!(words(), words());
    }
}
