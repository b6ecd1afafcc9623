//! The word as clients and brokers use it: every order in which two clients, a broker, and the brokers
//! after it can act, with the end of any of them between any two steps.
//!
//! `world` has the state, and the steps that can happen. Each step does one thing to one word, by the
//! word's own methods. In the first search two troubles happen at most (deaths, hang-ups, thefts,
//! terminations), in the second one; `NAVLOCK_EXHAUSTIVE_TROUBLES=2` lets two happen in both, which
//! takes minutes and gigabytes.

#![cfg(not(shuttle))]
#![forbid(unsafe_code)]

mod world;

use std::{collections::HashMap, env, fmt::Write, rc::Rc};

use proptest::{
    prelude::RngCore,
    test_runner::{RngAlgorithm, TestRng},
};

use self::world::{Setting, Step, World};

/// Every state that can be reached, each once.
fn explore(setting: Setting) -> usize {
    let troubles = env::var("NAVLOCK_EXHAUSTIVE_TROUBLES")
        .map_or(setting.troubles, |troubles| troubles.parse().expect("it is a number"));
    let first = Rc::new(World::new(Setting { troubles, ..setting }));
    // How each was reached: by this step, from that one.
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

/// Taken at random, and longer than all can be searched.
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
            // Trouble is rare, or there is little else.
            let step = if path.len() % 64 == 63 { choose(&steps) } else { choose(&calm) };
            path.push(step);
            let taken = world.take(step);
            assert_eq!(taken, Ok(()), "after {path:?}\n{world:#?}");
        }
        steps_taken += path.len();
    }
    assert!(steps_taken > 100_000, "histories that show little: {steps_taken}");
}
