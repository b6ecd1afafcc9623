//! `cargo xtask break-rules`: a check of the checks.
//!
//! A test that cannot fail shows nothing. For each entry of a `crates/*/rules.toml`, this command breaks one
//! rule in a copy of the sources: it replaces a piece of code. Then it runs the tests that the entry names.
//! They must pass before the change, and fail or never end after it.
//!
//! Most of the time goes into building. So there are several copies, each of which keeps what it has
//! built, and entries that build the same come one after the other ([`plan`]).

mod copy;
mod plan;
mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use self::{
    copy::{Copy, Outcome},
    plan::Plan,
    rules::{Rule, Shard},
};
use crate::run::{Result, root};

const USAGE: &str = "\
usage: cargo xtask break-rules [--jobs N] [--shard I/N] [ID…]

  ID           only the entries whose ids begin so
  --jobs N     in so many copies of the sources at once (one for each CPU)
  --shard I/N  only the I-th of N parts, which together are all";

pub(crate) fn break_rules(arguments: &[&str]) -> Result {
    let options = Options::parse(arguments)?;
    let rules = rules::read(&root())?;
    let rules = rules::select(&rules, &options.ids, options.shard)?;
    let jobs = options.jobs.min(rules.len());
    let folder = root().join("target/break-rules");
    let logs = folder.join("log");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let run = Run {
        count: rules.len(),
        since: Instant::now(),
        logs,
        plan: Mutex::new(Plan::new(rules)),
        whole: Mutex::default(),
        verdicts: Mutex::default(),
    };
    println!("{} entries in {jobs} copies; what was printed: {}", run.count, run.logs.display());
    let copies: Vec<Copy> = (0..jobs)
        .map(|nth| Copy::of_the_sources(folder.join(format!("copy-{nth}"))))
        .collect::<Result<_>>()?;
    let failed = thread::scope(|scope| {
        let workers: Vec<_> = copies.iter().map(|copy| scope.spawn(|| run.work(copy))).collect();
        // Wait for all workers, even if the first has failed.
        let ended: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        ended.into_iter().find_map(|ended| match ended {
            Ok(worked) => worked.err(),
            Err(_) => Some("a worker has panicked".to_owned()),
        })
    });
    let complaint = run.sum_up();
    match failed.or(complaint) {
        Some(message) => Err(message),
        None => Ok(()),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Options<'a> {
    jobs: usize,
    shard: Shard,
    ids: Vec<&'a str>,
}

impl<'a> Options<'a> {
    fn parse(arguments: &[&'a str]) -> Result<Self> {
        let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let mut options = Self { jobs: cpus, shard: Shard::ALL, ids: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(&argument) = arguments.next() {
            let mut value =
                || arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
            match argument {
                "--jobs" => {
                    let number = value()?;
                    let jobs = number.parse().ok().filter(|&jobs| jobs > 0);
                    options.jobs =
                        jobs.ok_or_else(|| format!("--jobs {number}: not a positive number"))?;
                }
                "--shard" => options.shard = value()?.parse()?,
                _ if argument.starts_with('-') => {
                    return Err(format!("unknown option {argument}\n{USAGE}"));
                }
                id => options.ids.push(id),
            }
        }
        Ok(options)
    }
}

/// What the workers share.
struct Run {
    count: usize,
    since: Instant,
    logs: PathBuf,
    plan: Mutex<Plan>,
    /// The outcome of each test on the unbroken sources, and how long the test took.
    whole: Mutex<BTreeMap<String, (Outcome, Duration)>>,
    verdicts: Mutex<Vec<(Rule, Verdict)>>,
}

/// What came of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// A test failed or never ended, so the tests show the rule.
    Noticed(Outcome),
    /// The tests passed.
    Unnoticed,
    /// The entry was not tried, and why.
    NotTried(String),
}

impl Run {
    /// Takes entries until there are none. An error ends this worker only.
    fn work(&self, copy: &Copy) -> Result {
        let mut last = None;
        loop {
            let Some(rule) = lock(&self.plan).next(last.as_ref()) else { return Ok(()) };
            let target = rule.target();
            if last.as_ref() != Some(&target) {
                // While nothing is broken, run all tests that the entries of this target name.
                let tests = lock(&self.plan).tests_of(&target, &rule);
                self.look_at_the_whole(copy, tests)?;
            }
            last = Some(target);
            let since = Instant::now();
            let verdict = self.try_out(copy, &rule)?;
            self.tell(rule, verdict, since.elapsed());
        }
    }

    fn look_at_the_whole(&self, copy: &Copy, mut tests: BTreeSet<String>) -> Result {
        tests.retain(|test| !lock(&self.whole).contains_key(test));
        for test in tests {
            let since = Instant::now();
            let outcome = copy.test(&test, copy::LONGEST, &self.log("whole", &test))?;
            lock(&self.whole).insert(test, (outcome, since.elapsed()));
        }
        Ok(())
    }

    fn try_out(&self, copy: &Copy, rule: &Rule) -> Result<Verdict> {
        let whole = lock(&self.whole).get(&rule.test).copied();
        let Some((Outcome::Passed, took)) = whole else {
            let outcome = whole.map_or(Outcome::Failed, |(outcome, _)| outcome);
            return Ok(Verdict::NotTried(format!("{outcome} before anything was broken")));
        };
        let log = self.log("broken", &rule.id);
        let outcome = match copy.broken(rule, copy::timeout(took), &log) {
            Ok(outcome) => outcome,
            Err(copy::Problem::Entry(why)) => return Ok(Verdict::NotTried(why)),
            Err(copy::Problem::Copy(why)) => return Err(why),
        };
        Ok(match outcome {
            Outcome::Failed | Outcome::NeverEnded => Verdict::Noticed(outcome),
            Outcome::Passed => Verdict::Unnoticed,
            Outcome::DidNotCompile => Verdict::NotTried(format!("{outcome}: {}", log.display())),
        })
    }

    fn log(&self, what: &str, of: &str) -> PathBuf {
        let name: String =
            of.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.logs.join(format!("{what}-{}.txt", name.trim_matches('-')))
    }

    fn tell(&self, rule: Rule, verdict: Verdict, took: Duration) {
        let mut verdicts = lock(&self.verdicts);
        let nth = verdicts.len() + 1;
        println!(
            "{nth:>3}/{} {:<48} rule {:<8} {:>4} s  {verdict}",
            self.count,
            rule.id,
            rule.breaks,
            took.as_secs()
        );
        verdicts.push((rule, verdict));
    }

    /// Prints a summary if all entries were noticed. Otherwise returns it, as the complaint.
    fn sum_up(&self) -> Option<String> {
        let verdicts = lock(&self.verdicts);
        let ids = |wanted: fn(&Verdict) -> bool| {
            let those = verdicts.iter().filter(|(_, verdict)| wanted(verdict));
            let mut ids: Vec<&str> = those.map(|(rule, _)| &*rule.id).collect();
            ids.sort_unstable();
            ids
        };
        let unnoticed = ids(|verdict| matches!(verdict, Verdict::Unnoticed));
        let not_tried = ids(|verdict| matches!(verdict, Verdict::NotTried(_)));
        let left = self.count - verdicts.len();
        let noticed = verdicts.len() - unnoticed.len() - not_tried.len();
        let mut line = format!(
            "{} entries in {} s: {noticed} noticed, {} unnoticed, {} could not be tried",
            self.count,
            self.since.elapsed().as_secs(),
            unnoticed.len(),
            not_tried.len() + left
        );
        if noticed == self.count {
            println!("{line}");
            return None;
        }
        for (what, ids) in [("unnoticed", unnoticed), ("could not be tried", not_tried)] {
            if !ids.is_empty() {
                line = format!("{line}\n{what}: {}", ids.join(", "));
            }
        }
        Some(line)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noticed(outcome) => write!(f, "noticed: {outcome}"),
            Self::Unnoticed => f.write_str("UNNOTICED: the tests passed"),
            Self::NotTried(why) => write!(f, "NOT TRIED: {why}"),
        }
    }
}

/// A panic of another worker does no harm: the data are consistent after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_a_shard_and_ids_can_be_given_in_any_order() {
        let options = Options::parse(&["draining", "--jobs", "3", "--shard", "2/4", "a"]).unwrap();
        assert_eq!((options.jobs, options.ids), (3, vec!["draining", "a"]));
        assert_eq!(options.shard, "2/4".parse().unwrap());
    }

    #[test]
    fn wrong_options_are_refused() {
        for arguments in [&["--jobs", "0"][..], &["--jobs"], &["--shard", "3/2"], &["--all"]] {
            assert!(Options::parse(arguments).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn only_when_all_is_noticed_there_is_nothing_to_complain_of() {
        let of = |verdicts: &[Verdict], count| Run {
            count,
            since: Instant::now(),
            logs: PathBuf::new(),
            plan: Mutex::new(Plan::new(Vec::new())),
            whole: Mutex::default(),
            verdicts: Mutex::new(
                verdicts.iter().map(|verdict| (rules::tests::rule("a"), verdict.clone())).collect(),
            ),
        };
        let noticed = Verdict::Noticed(Outcome::Failed);
        assert_eq!(of(std::slice::from_ref(&noticed), 1).sum_up(), None);
        let lines = of(&[noticed.clone(), Verdict::Unnoticed], 2).sum_up().unwrap();
        assert!(lines.contains("1 noticed, 1 unnoticed, 0 could not be tried"), "{lines}");
        assert!(lines.ends_with("\nunnoticed: a"), "{lines}");
        // An entry that no worker came to.
        assert!(of(&[noticed], 2).sum_up().unwrap().contains("1 could not be tried"));
    }
}
