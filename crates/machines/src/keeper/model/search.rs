//! Random runs, for scenes with too many states to explore.
//!
//! Everything in a run follows from its seed: the scripts, what goes wrong, and the order of the
//! steps. A run that fails tells its seed. `NAVLOCK_MODEL_SEED` repeats that run, and
//! `NAVLOCK_MODEL_RUNS` says how many runs to make.

use std::{env, fmt::Debug, str::FromStr};

use navlock_core::{
    Mode::*,
    host::RequestKind::{self, *},
};

use super::{
    scene::Scene,
    script::{Act, Faults, Step},
};

/// How many steps a run may take. This is many times what the longest run takes.
const MOST_STEPS: usize = 5000;

/// Random numbers. The same seed gives the same numbers everywhere.
pub(super) struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// This is Splitmix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).expect("it is small");
        usize::try_from(self.next() % end).expect("it is less than that")
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Makes as many runs as are asked for.
pub(super) fn search(test: &str, runs: u64, run: impl Fn(&mut Random) -> usize) {
    let (first, runs) = match asked::<u64>("NAVLOCK_MODEL_SEED") {
        Some(seed) => (seed, 1),
        None => (0, asked("NAVLOCK_MODEL_RUNS").unwrap_or(runs)),
    };
    let mut steps = 0;
    for seed in first..first.saturating_add(runs) {
        let failing = Failing { test, seed };
        steps += run(&mut Random::new(seed));
        drop(failing);
    }
    println!("{runs} runs of {} steps", steps as u64 / runs.max(1));
    assert!(steps > 0, "nothing was done");
}

/// The value of a variable of the environment.
pub(super) fn asked<T: FromStr<Err: Debug>>(variable: &str) -> Option<T> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|error| panic!("{variable}={value}: {error:?}")))
}

/// Says how to repeat a run that has failed.
struct Failing<'a> {
    test: &'a str,
    seed: u64,
}

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { test, seed } = self;
            eprintln!(
                "again: NAVLOCK_MODEL_SEED={seed} cargo test -p navlock-machines --lib {test}"
            );
        }
    }
}

/// Makes one run of these scripts, to its end. Returns how many steps it took.
pub(super) fn run(random: &mut Random, scripts: &[&[Act]], faults: Faults, owns: bool) -> usize {
    let is_warm = coin(random);
    let mut run = Scene { test: None, scripts, faults, is_warm, owns }.after(&[]);
    let pace = Pace::new(random, scripts.len());
    loop {
        let steps = run.world.steps();
        if steps.is_empty() {
            run.world.check_end();
            return run.steps.len();
        }
        assert!(run.steps.len() < MOST_STEPS, "there is no end to it");
        run.take(pace.choose(random, &steps));
    }
}

/// How fast everything is in a run. With equal chances for all steps, some orders would be rare in
/// every run. With these weights, they are common in some runs.
struct Pace {
    /// The weights for each machine: of acts, of calls on their way to the store, of answers, and of the
    /// watch.
    machines: Vec<[usize; 4]>,
    expiry: usize,
    fault: usize,
}

impl Pace {
    fn new(random: &mut Random, machines: usize) -> Self {
        let mut speed = || random.one(&[1, 4, 16, 64]);
        let machines = (0..machines).map(|_| [(); 4].map(|()| speed())).collect();
        Self { machines, expiry: speed(), fault: speed() }
    }

    fn of(&self, step: Step) -> usize {
        match step {
            Step::Act(nth) => self.machines[nth][0],
            Step::Execute(nth, _) => self.machines[nth][1],
            Step::Answer(nth, _) => self.machines[nth][2],
            Step::Receive(nth, _) => self.machines[nth][3],
            Step::Expire(_) | Step::Over(_) | Step::Tick(_) => self.expiry,
            _ => self.fault,
        }
    }

    fn choose(&self, random: &mut Random, steps: &[Step]) -> Step {
        let all = steps.iter().map(|step| self.of(*step)).sum();
        let mut at = random.below(all);
        for &step in steps {
            match at.checked_sub(self.of(step)) {
                Some(rest) => at = rest,
                None => return step,
            }
        }
        unreachable!("it is less than the sum")
    }
}

pub(super) fn coin(random: &mut Random) -> bool {
    random.below(2) == 0
}

/// What a few machines may do, and what may go wrong.
pub(super) fn scenario(random: &mut Random) -> (Vec<Vec<Act>>, Faults) {
    let machines = 2 + random.below(3);
    let has_thief = random.below(4) == 0;
    let names: &[&str] = random.one(&[&["a"], &["a"], &["a", "b"]]);
    let agents = random.one(&[1, 1, 2, 4]);
    let scripts =
        (0..machines).map(|_| script(random, names, agents, has_thief)).collect::<Vec<_>>();
    let mut budget = random.one(&[0, 0, 1, 1, 2, 3]);
    let mut faults = Faults::default();
    while budget > 0 {
        budget -= 1;
        *random.one_of_mut(&mut faults.each()) += 1;
    }
    (scripts, faults)
}

impl Random {
    fn one_of_mut<'a>(&mut self, of: &'a mut [&mut u32]) -> &'a mut u32 {
        let nth = self.below(of.len());
        of[nth]
    }
}

fn script(random: &mut Random, names: &[&'static str], agents: usize, has_thief: bool) -> Vec<Act> {
    let mut script = Vec::new();
    // The requests that nothing has ended yet.
    let mut open: Vec<usize> = Vec::new();
    let mut requests = 0;
    for _ in 0..=random.below(6) {
        if !open.is_empty() && random.below(2) == 0 {
            let nth = random.below(open.len());
            script.push(Act::Finish(open.swap_remove(nth)));
            continue;
        }
        if random.below(12) == 0 {
            script.push(Act::End(random.below(agents)));
            continue;
        }
        if random.below(12) == 0 {
            script.push(Act::Describe(random.below(agents)));
            continue;
        }
        let kind = kind(random, has_thief);
        script.push(Act::RequestBy(random.below(agents), random.one(names), kind));
        open.push(requests);
        requests += 1;
    }
    // Most scripts end what they have. Otherwise there would be nothing to grant in the rest of the
    // run.
    if random.below(4) > 0 {
        script.extend(open.into_iter().map(Act::Finish));
    }
    script
}

fn kind(random: &mut Random, has_thief: bool) -> RequestKind {
    match random.below(10) {
        0..4 => Wait(Exclusive),
        4..8 => Wait(Shared),
        8 => IfAvailable(random.one(&[Exclusive, Shared])),
        _ if has_thief => Steal,
        _ => Wait(Exclusive),
    }
}
