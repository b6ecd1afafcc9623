//! The word as clients and brokers use it. These tests try every order in which two clients, a
//! broker and the brokers after it can act. Any of them can end between any two steps.
//!
//! `world` has the state and the possible steps. Each step does one thing to one word, by the
//! word's own methods. Troubles are deaths, hang-ups, thefts and terminations. The first search has
//! at most two troubles, and the second at most one. `NAVLOCK_EXHAUSTIVE_TROUBLES=2` allows two in
//! both searches, which takes minutes and gigabytes.

#![cfg(not(shuttle))]
#![forbid(unsafe_code)]

mod world;

use std::{collections::HashMap, env, fmt::Write, rc::Rc};

use proptest::{
    prelude::RngCore,
    test_runner::{RngAlgorithm, TestRng},
};

use self::world::{Setting, Step, World};

/// Visits every reachable state once. Returns how many states there are.
fn explore(setting: Setting) -> usize {
    let troubles = env::var("NAVLOCK_EXHAUSTIVE_TROUBLES")
        .map_or(setting.troubles, |troubles| troubles.parse().expect("it is a number"));
    let first = Rc::new(World::new(Setting { troubles, ..setting }));
    // For each state, the state before it and the step between them.
    let mut reached = HashMap::from([(first.clone(), None::<(usize, Step)>)]);
    let mut worlds = vec![first];
    let mut next = 0;
    while let Some(world) = worlds.get(next).cloned() {
        let steps = world.steps();
        let mut wrong = world.is_wrong(&steps).map(|wrong| (wrong, None));
        for step in steps {
            let mut after = World::clone(&world);
            if let Err(complaint) = after.take(step) {
                wrong = wrong.or(Some((complaint, Some(step))));
                break;
            }
            if !reached.contains_key(&after) {
                let after = Rc::new(after);
                reached.insert(after.clone(), Some((next, step)));
                worlds.push(after);
            }
        }
        if let Some((wrong, last)) = wrong {
            let mut path: Vec<_> = last.into_iter().collect();
            let mut at = next;
            while let Some((before, step)) = reached[&worlds[at]] {
                path.push(step);
                at = before;
            }
            let mut told = String::new();
            for step in path.iter().rev() {
                writeln!(told, "    {step:?}").expect("a string takes all");
            }
            panic!("{wrong}, after\n{told}{world:#?}");
        }
        next += 1;
    }
    worlds.len()
}

#[test]
fn two_clients_share_a_name_whatever_happens_to_them_and_to_the_broker() {
    let reached = explore(Setting { threads: &[1, 1], holds: 2, troubles: 2 });
    assert!(reached > 10_000, "a search that sees little: {reached}");
}

#[test]
fn threads_of_one_client_share_its_word_whatever_happens() {
    let reached = explore(Setting { threads: &[2, 1], holds: 1, troubles: 1 });
    assert!(reached > 10_000, "a search that sees little: {reached}");
}

/// The steps are chosen at random. The histories are too long for a full search.
#[test]
fn tokens_grow_over_takes_and_grants_in_long_histories() {
    let mut chance = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut choose = |steps: &[Step]| steps[chance.next_u32() as usize % steps.len()];
    let mut steps_taken = 0_usize;
    for _ in 0..300 {
        let mut world = World::new(Setting { threads: &[2, 2, 1], holds: 40, troubles: 12 });
        let mut path = Vec::new();
        loop {
            let steps = world.steps();
            let wrong = world.is_wrong(&steps);
            assert_eq!(wrong, None, "after {path:?}\n{world:#?}");
            let calm: Vec<_> = steps.iter().copied().filter(|step| !step.is_trouble()).collect();
            if calm.is_empty() {
                break;
            }
            // Trouble is rare. Otherwise, the histories would have little else.
            let step = if path.len() % 64 == 63 { choose(&steps) } else { choose(&calm) };
            path.push(step);
            let taken = world.take(step);
            assert_eq!(taken, Ok(()), "after {path:?}\n{world:#?}");
        }
        steps_taken += path.len();
    }
    assert!(steps_taken > 100_000, "histories that show little: {steps_taken}");
}
