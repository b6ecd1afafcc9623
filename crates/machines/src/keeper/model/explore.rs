//! Explores everything that can happen with a few machines. States with fewer steps come first.
//!
//! A state cannot be copied. It can only be reached again by its steps. So for each state that was found,
//! three things are kept: the state from which it was found, the step, and its fingerprint. These take
//! some fifty bytes, however large the state is.
//!
//! An exploration that fails says by which steps. No shorter way leads there. `NAVLOCK_MODEL_STEPS`
//! repeats these steps. An exploration that is not a test goes on to its end, or for
//! `NAVLOCK_MODEL_MINUTES`.

use std::{
    collections::HashSet,
    env,
    time::{Duration, Instant},
};

use super::{scene::Scene, script::Step, search::asked};
use crate::hash::HashState;

/// How many states a test explores at most.
const MOST: usize = 500_000;

/// What an exploration has seen.
#[derive(Debug)]
struct Explored {
    /// How many states it has found.
    states: usize,
    /// In how many ways it has come to an end.
    ends: usize,
    /// All states that are at most this many steps away are among them.
    steps: usize,
    /// Whether there are no other states.
    is_all: bool,
    /// In how many of the states a name is owned.
    owned: usize,
}

/// A state: the number of the state from which it was found, and the step.
type Found = (usize, Option<Step>);

/// Explores as a test. Checks that there are at least this many states.
pub(super) fn test(scene: Scene<'_>, least: usize) {
    if redo(scene) {
        return;
    }
    let seen = explore(scene, |states| states >= MOST);
    println!("{seen:?}");
    assert!(seen.is_all, "these are too many states for a test: {seen:?}");
    assert!(seen.states >= least && seen.ends > 1, "there is less to be seen: {seen:?}");
    assert!(!scene.owns || seen.owned > 0, "no name is owned: {seen:?}");
}

/// Explores as far as there is time.
pub(super) fn go_far(scene: Scene<'_>) {
    if redo(scene) {
        return;
    }
    let began = Instant::now();
    let minutes: Option<u64> = asked("NAVLOCK_MODEL_MINUTES");
    let most = minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let seen = explore(scene, |_| most.is_some_and(|most| began.elapsed() >= most));
    let Explored { states, steps, is_all, ends, .. } = seen;
    let name = scene.test.unwrap_or_default();
    let far = if is_all { "that is all, the last" } else { "not all, but all that are up to" };
    let seconds = began.elapsed().as_secs();
    println!("{name}: {states} states in {seconds} s: {far} {steps} steps away");
    assert!(ends > 0 || !is_all, "it never ends: {seen:?}");
}

/// Explores one state after the other, until there are enough.
fn explore(scene: Scene<'_>, is_enough: impl Fn(usize) -> bool) -> Explored {
    let mut known: HashSet<u64, HashState> = HashSet::default();
    let mut found: Vec<Found> = vec![(0, None)];
    let (mut at, mut ends, mut far, mut owned) = (0, 0, 0, 0);
    while at < found.len() && !is_enough(found.len()) {
        let way = way_to(&found, at);
        far = way.len();
        let run = scene.after(&way);
        let steps = run.world.steps();
        owned += usize::from(run.world.has_owned());
        let mut here = Some(run);
        for &step in &steps {
            let mut run = here.take().unwrap_or_else(|| scene.after(&way));
            run.take(step);
            if run.world.steps().is_empty() {
                run.world.check_end();
                ends += 1;
            } else if known.insert(run.world.fingerprint()) {
                found.push((at, Some(step)));
            }
        }
        at += 1;
    }
    Explored { states: found.len(), ends, steps: far, is_all: at == found.len(), owned }
}

/// The steps to a state.
fn way_to(found: &[Found], mut at: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while let (before, Some(step)) = found[at] {
        steps.push(step);
        at = before;
    }
    steps.reverse();
    steps
}

/// Repeats the steps that the variable asks for, and shows what each does to the store. Returns whether
/// there are any.
fn redo(scene: Scene<'_>) -> bool {
    let Ok(steps) = env::var("NAVLOCK_MODEL_STEPS") else { return false };
    let mut run = scene.after(&[]);
    for asked in steps.split(';').map(str::trim) {
        let can = run.world.steps();
        let step = can.iter().copied().find(|step| format!("{step:?}") == asked);
        let step = step.unwrap_or_else(|| panic!("{asked:?} cannot come next, but {can:?}"));
        println!("{}", run.world.told(step));
        run.take(step);
        println!("    {}", run.world.store);
    }
    if run.world.steps().is_empty() {
        run.world.check_end();
    }
    true
}
