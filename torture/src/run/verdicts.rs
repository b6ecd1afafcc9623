//! The verdicts of a run: which ends of workers and which suspicions are violations, and the summary.

use std::{cmp::Ordering, fs, time::Duration};

use rustix::process::WaitStatus;

use super::Run;
use crate::{
    events::now,
    history::Kind,
    judge::{Judge, Verdict},
    options::Reach,
    sandbox::Machine,
};

/// How many violations are shown at once.
const SHOWN: usize = 20;

impl Run<'_> {
    /// Judges whether a worker was allowed to end as it did.
    pub(super) fn ended(&mut self, id: u64, status: WaitStatus) {
        // What the worker said before its end.
        let (lines, end) = self.events.since(self.read);
        self.read = end;
        self.history.take_in(&lines);
        let at = now();
        let Some(instance) = self.history.instances.get_mut(&id) else { return };
        instance.ended = Some(at);
        let (code, signal) = (status.exit_status(), status.terminating_signal());
        let shown =
            code.map_or_else(|| format!("signal {signal:?}"), |code| format!("code {code}"));
        self.events.say(format_args!("ended {id} {shown}"));
        let instance = instance.clone();
        let judge = Judge::new(&self.history, self.options);
        let excuse = match (code, &instance.kind) {
            (Some(0), _) | (Some(1), Kind::Run { may_give_up: true, .. }) => Some(""),
            // `navlock run` passes on how its command ended.
            (Some(137), Kind::Run { .. }) if instance.command_killed.is_some() => Some(""),
            (Some(137 | 143), Kind::Run { .. }) if instance.is_told => Some(""),
            (Some(75), Kind::Run { .. }) => judge.may_lose(id, None, at),
            (Some(69 | 126), _) => judge.may_fail(id, at),
            (None, _) if instance.killed.is_some() => Some(""),
            _ => None,
        };
        let path = self.stderr(id);
        match excuse {
            Some("") => {}
            Some(reason) => {
                let ended = if code == Some(75) { "told that it has lost" } else { "failed" };
                *self.excused.entry((ended, reason)).or_default() += 1;
            }
            None => {
                let said = fs::read_to_string(&path).unwrap_or_default();
                self.violated(
                    at,
                    &format!("{id} ended with {shown}: {} {instance:?}", said.trim()),
                );
            }
        }
        if excuse.is_some() {
            let _ = fs::remove_file(path);
        }
    }

    pub(crate) fn violated(&mut self, at: u64, what: &str) {
        self.events.say(format_args!("VIOLATION {at} {}", what.replace('\n', " ")));
        self.violations += 1;
        match self.violations.cmp(&SHOWN) {
            Ordering::Less => eprintln!("violation at {at}: {what}"),
            Ordering::Equal => eprintln!("further violations are among the events"),
            Ordering::Greater => {}
        }
    }

    /// A run in which no name was ever owned has shown nothing of names that are owned.
    pub(super) fn look_for_owners(&mut self) {
        let has_owners = self.options.reach == Reach::Broker && self.options.has("owners");
        let should_own = has_owners && self.options.has("delegation");
        if should_own && self.history.grants > 1000 && self.history.owned == 0 {
            self.violated(now(), "no name was ever seen to be owned");
        }
    }

    /// Judges the suspicions. To be called when everything is known that concerns them.
    pub(crate) fn judge(&mut self) {
        let suspicions = std::mem::take(&mut self.history.suspicions);
        for (at, suspicion) in suspicions {
            let judge = Judge::new(&self.history, self.options);
            match judge.judge(at, &suspicion) {
                Verdict::Excused(reason) => {
                    self.events.say(format_args!("excused {at} {reason}: {suspicion:?}"));
                    *self.excused.entry((suspicion.what(), reason)).or_default() += 1;
                }
                Verdict::Violation(what) => self.violated(at, &what),
            }
        }
    }

    pub(super) fn summarise(self, lasted: Duration) -> bool {
        let counts = self.disturbances.iter().map(|(what, count)| format!("{what} {count}"));
        println!("disturbances: {}", counts.collect::<Vec<_>>().join(", "));
        for ((what, reason), count) in &self.excused {
            println!("as docs/crashes.md says, {count} times {what}: {reason}");
        }
        let asked = self.history.asked.iter();
        let asked: Vec<_> = asked.map(|(most, times)| format!("{times} times {most}")).collect();
        if !asked.is_empty() {
            println!(
                "who asked for what others take in a loop saw one of them have it before: {}; names \
                 that are owned were seen {} times",
                asked.join(", "),
                self.history.owned,
            );
        }
        if let Some(etcd) = &self.etcd {
            println!("{}", etcd.record.summary());
        }
        let is_well = self.violations == 0 && self.stuck == 0;
        let reach = match self.options.reach {
            Reach::Broker => "broker",
            Reach::Etcd => "etcd",
            Reach::Postgres => "postgres",
        };
        let (memory, descriptors) = self.broker_size;
        println!(
            "torture of {reach}, seed {}, {} s: {} grants to {} processes, {} disturbances, {} \
             violations, {} stuck; a broker at rest has {memory} KiB and {descriptors} descriptors",
            self.options.seed,
            lasted.as_secs(),
            self.history.grants,
            self.started,
            self.disturbances.values().sum::<u64>(),
            self.violations,
            self.stuck,
        );
        // Otherwise they are removed, once nothing in them is in use.
        if !is_well || self.options.keeps {
            println!("the logs are in {}", self.sandbox.logs.display());
        }
        is_well
    }

    /// A broker must not panic, even where no client has noticed.
    pub(super) fn look_for_faults(&mut self) {
        let faults: String = self.sandbox.machines.iter().map(Machine::faults).collect();
        for fault in faults.lines() {
            self.violated(now(), &format!("a broker panicked: {fault}"));
        }
    }
}
