//! A store in memory: the part of its data model that `data.rs` defines.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use navlock_core::Mode;
use navlock_engine::FencingToken;

use crate::{
    call_failure::Failure,
    data::{Answer, Check, KeyValue, Listing, Step, StepResult, Transaction, prefix_end},
    hash::HashState,
    keys::{BucketKeys, LockKey, NameKey, Phase, RequestKey},
    mirror,
    tokens::{Grant, revision},
    transactions::Owning,
    values::Value,
    watched::{self, Event, Put},
};

/// A server. Each change is checked against the rules of the engine when it is made.
pub(super) struct Memory {
    pub(super) keys: BucketKeys,
    pub(super) revision: i64,
    pub(super) found: BTreeMap<Vec<u8>, KeyValue>,
    pub(super) leases: BTreeSet<i64>,
    pub(super) last_lease: i64,
    /// For each name, the place in its queue that was granted last.
    pub(super) granted: HashMap<NameKey, (i64, u64), HashState>,
    /// The tokens of the locks that were stolen.
    pub(super) stolen: BTreeSet<FencingToken>,
    /// The requests that have stolen, each with its number.
    pub(super) thieves: BTreeSet<(RequestKey, u64)>,
    /// The revisions since which names were owned of which their owners were robbed.
    pub(super) robbed: BTreeSet<i64>,
    /// What happened, by revision.
    pub(super) log: Vec<Vec<Event>>,
    /// What there was, by revision, if anybody may ask for it.
    pub(super) past: Option<BTreeMap<i64, BTreeMap<Vec<u8>, KeyValue>>>,
}

impl Memory {
    pub(super) fn new(keys: BucketKeys) -> Self {
        // A new server has this revision.
        let revision = 1;
        let (found, leases, log, past) = Default::default();
        let (granted, stolen, thieves, robbed) = Default::default();
        Self {
            keys,
            revision,
            found,
            leases,
            last_lease: 0,
            granted,
            stolen,
            thieves,
            robbed,
            log,
            past,
        }
    }

    pub(super) fn transact(&mut self, transaction: &Transaction) -> Result<Answer, Failure> {
        let before = self.found.clone();
        let mut changes = Vec::new();
        let revision = self.revision + 1;
        let mut path = self.path(transaction).into_iter();
        let answer = self.run(transaction, revision, &mut path, &mut changes);
        let Some(mut answer) = answer else {
            self.found = before;
            return Err(Failure::NoLease);
        };
        if !changes.is_empty() {
            let is_theft = steals(transaction);
            if is_theft {
                let gone = before.iter().filter(|(key, _)| !self.found.contains_key(*key));
                for (key, kv) in gone {
                    match self.keys.parse(key).map(|key| key.phase) {
                        Some(Phase::Owned) => drop(self.robbed.insert(kv.made)),
                        _ => drop(self.stolen.insert(granted_as(kv.made, &kv.value))),
                    }
                }
                let puts =
                    changes.iter().filter_map(|event| Some((&event.key, event.put.as_ref()?)));
                for (key, put) in puts.filter(|(key, _)| key.phase == Phase::Held) {
                    let thief = (key.request, Value::place(&put.value));
                    assert!(self.thieves.insert(thief), "{key:?} steals twice");
                }
            }
            self.check(&before, is_theft);
            self.commit(changes);
        }
        stamp(&mut answer, self.revision);
        Ok(answer)
    }

    fn commit(&mut self, changes: Vec<Event>) {
        self.revision += 1;
        self.log.push(changes);
        if let Some(past) = &mut self.past {
            past.insert(self.revision, self.found.clone());
        }
    }

    /// Which of the nested transactions succeed, in their order. The store looks at all checks before it
    /// does anything.
    fn path(&self, transaction: &Transaction) -> Vec<bool> {
        let succeeded = transaction.when.iter().all(|check| self.holds(check));
        let steps = if succeeded { &transaction.then } else { &transaction.or_else };
        let within = steps.iter().flat_map(|step| match step {
            Step::Within(inner) => self.path(inner),
            _ => Vec::new(),
        });
        [succeeded].into_iter().chain(within).collect()
    }

    /// `None` if there is no such lease.
    fn run(
        &mut self,
        transaction: &Transaction,
        revision: i64,
        path: &mut impl Iterator<Item = bool>,
        changes: &mut Vec<Event>,
    ) -> Option<Answer> {
        let succeeded = path.next().expect("each has been looked at");
        let steps = if succeeded { &transaction.then } else { &transaction.or_else };
        let mut results = Vec::new();
        for step in steps {
            results.push(match step {
                Step::Put { key, value, lease } => {
                    if !self.leases.contains(lease) {
                        return None;
                    }
                    let made = self.found.get(key).map_or(revision, |old| old.made);
                    let (key, value, written) = (key.clone(), value.clone(), revision);
                    let kv = KeyValue { key, value, made, written, lease: *lease };
                    changes.extend(watched::read(&self.keys, &kv));
                    self.found.insert(kv.key.clone(), kv);
                    StepResult::Done
                }
                Step::Get(key) => StepResult::Got(self.found.get(key).map(|kv| kv.made)),
                Step::Count(start, end) => {
                    let count = self.found.range(start.clone()..end.clone()).count();
                    StepResult::Counted(i64::try_from(count).expect("few"))
                }
                Step::First(start, end) => {
                    let first = self.found.range(start.clone()..end.clone()).next();
                    StepResult::First(first.map(|(_, kv)| Box::new(kv.clone())))
                }
                Step::Delete(key) => {
                    self.delete(key, revision, changes);
                    StepResult::Done
                }
                Step::DeleteRange(start, end) => {
                    let range = self.found.range(start.clone()..end.clone());
                    let keys: Vec<_> = range.map(|(key, _)| key.clone()).collect();
                    for key in &keys {
                        self.delete(key, revision, changes);
                    }
                    StepResult::Deleted(keys)
                }
                Step::Within(inner) => {
                    StepResult::Within(self.run(inner, revision, path, changes)?)
                }
            });
        }
        Some(Answer { revision, cluster: 1, succeeded, results })
    }

    fn holds(&self, check: &Check) -> bool {
        match check {
            Check::Absent(key) => !self.found.contains_key(key),
            Check::Present(key) => self.found.contains_key(key),
            Check::MadeIn(key, made) => self.found.get(key).is_some_and(|kv| kv.made == *made),
            Check::WrittenIn(key, revision) => {
                self.found.get(key).is_some_and(|kv| kv.written == *revision)
            }
            Check::Empty(start, end) => {
                self.found.range(start.clone()..end.clone()).next().is_none()
            }
            Check::NoneAfter(start, end, revision) => {
                let mut range = self.found.range(start.clone()..end.clone());
                range.all(|(_, kv)| kv.made <= *revision)
            }
        }
    }

    fn delete(&mut self, key: &[u8], revision: i64, changes: &mut Vec<Event>) {
        if let Some(gone) = self.found.remove(key) {
            let event = watched::read(&self.keys, &gone);
            changes.extend(event.map(|event| Event { revision, put: None, ..event }));
        }
    }

    /// The keys below this prefix as of this revision, or 0 for the last one.
    pub(super) fn list(&self, prefix: &[u8], at: i64) -> Listing {
        let past = self.past.as_ref().and_then(|past| past.get(&at));
        let found = past.unwrap_or(&self.found);
        let range = found.range(prefix.to_vec()..prefix_end(prefix));
        Listing {
            revision: if at == 0 { self.revision } else { at },
            cluster: 1,
            found: range.map(|(_, kv)| kv.clone()).collect(),
            left_out: 0,
        }
    }

    /// What is in this mailbox.
    pub(super) fn asked(&self, mailbox: &[u8]) -> Vec<Vec<u8>> {
        let asked = self.found.keys().filter_map(|key| key.strip_prefix(mailbox));
        asked.map(<[u8]>::to_vec).collect()
    }

    pub(super) fn grant_lease(&mut self) -> i64 {
        self.last_lease += 1;
        self.leases.insert(self.last_lease);
        self.last_lease
    }

    /// Ends a lease, with all keys under it, in one revision.
    pub(super) fn end_lease(&mut self, lease: i64) {
        if !self.leases.remove(&lease) {
            return;
        }
        let under = self.found.values().filter(|kv| kv.lease == lease);
        let keys: Vec<_> = under.map(|kv| kv.key.clone()).collect();
        let mut changes = Vec::new();
        for key in keys {
            self.delete(&key, self.revision + 1, &mut changes);
        }
        if !changes.is_empty() {
            self.commit(changes);
        }
    }

    /// The keys under a lease.
    pub(super) fn under(&self, lease: i64) -> Vec<Vec<u8>> {
        let under = self.found.values().filter(|kv| kv.lease == lease);
        under.map(|kv| kv.key.clone()).collect()
    }

    /// Removes the nth lock or request, as a person may. Returns its value.
    pub(super) fn evict(&mut self, nth: usize) -> Value {
        let (of, _) = self.entries().swap_remove(nth);
        let key = self.keys.name(&of.name).request(of.phase, of.mode, of.request);
        let value = Value::decode(&self.found[&key].value).expect("it is ours");
        let mut changes = Vec::new();
        self.delete(&key, self.revision + 1, &mut changes);
        self.commit(changes);
        value
    }

    /// All locks and requests.
    pub(super) fn entries(&self) -> Vec<(LockKey, Put)> {
        entries(&self.keys, &self.found)
    }

    /// Checks the rules of the engine for what has just changed.
    fn check(&mut self, before: &BTreeMap<Vec<u8>, KeyValue>, is_theft: bool) {
        let (old, new) = (entries(&self.keys, before), self.entries());
        let is_there = |entries: &[(LockKey, Put)], key: &LockKey| {
            entries.iter().any(|(other, _)| other == key)
        };
        let mut names: Vec<&NameKey> = new.iter().map(|(key, _)| &key.name).collect();
        names.dedup();
        for name in names {
            let held = new.iter().filter(|(key, _)| key.name == *name && key.phase == Phase::Held);
            let modes: Vec<Mode> = held.map(|(key, _)| key.mode).collect();
            assert!(modes.len() < 2 || modes.iter().all(|mode| *mode == Mode::Shared), "{modes:?}");
            let of = |phase| {
                let of = new.iter().filter(move |(key, _)| key.name == *name && key.phase == phase);
                of.map(|(key, _)| key.request.owner)
            };
            for owner in of(Phase::Owned) {
                let mut all = of(Phase::Owned).chain(of(Phase::Held));
                assert!(all.all(|other| other == owner), "it is held beside its owner");
            }
        }
        // The owner of a name for a run grants the name to the requests that were first.
        for (key, _) in new.iter().filter(|(key, put)| is_run(key, put) && !is_there(&old, key)) {
            let queue =
                old.iter().filter(|(of, _)| of.name == key.name && of.phase == Phase::Queued);
            let (waits, run): (Vec<_>, Vec<_>) = queue.partition(|(of, _)| is_there(&new, of));
            let last = run.iter().map(|(_, put)| order(put)).max();
            let first = waits.iter().map(|(_, put)| order(put)).min();
            assert!(
                first.is_none_or(|first| last < Some(first)),
                "{run:?} has overtaken {waits:?}"
            );
        }
        let mut granted = Vec::new();
        for (key, put) in new.iter().filter(|(key, _)| key.phase == Phase::Held) {
            if is_there(&old, key) || is_theft {
                continue;
            }
            let queue = || {
                let waits =
                    |(of, _): &&(LockKey, Put)| of.name == key.name && of.phase == Phase::Queued;
                old.iter().filter(waits)
            };
            let was = queue().find(|(of, _)| of.request == key.request).map(|(_, put)| order(put));
            // The lock was granted before it was written.
            let owned = Value::mark(&put.value) != 0;
            if owned && old.iter().any(|(of, put)| of.name == key.name && is_run(of, put)) {
                continue;
            }
            let was = was.or_else(|| owned.then(|| (since(put.made, &put.value), 0)));
            for (other, put) in queue() {
                let was_before = was.is_none_or(|was| order(put) < was);
                let waits_on = is_there(&new, other);
                assert!(!(was_before && waits_on), "{key:?} has overtaken {other:?}");
            }
            granted.extend(was.filter(|_| !owned).map(|was| (key.name.clone(), was)));
        }
        // Grants in one revision are sorted by the order of their requests, which is that of their
        // keys.
        granted.sort_by_key(|&(_, was)| was);
        for (name, was) in granted {
            let last = self.granted.insert(name, was);
            assert!(last.is_none_or(|last| last <= was), "{was:?} is granted after {last:?}");
        }
    }
}

fn entries(keys: &BucketKeys, found: &BTreeMap<Vec<u8>, KeyValue>) -> Vec<(LockKey, Put)> {
    let events = found.values().filter_map(|kv| watched::read(keys, kv));
    events.map(|event| (event.key, event.put.expect("it is there"))).collect()
}

/// Whether this is an owner key of a name that is owned for a run alone.
fn is_run(key: &LockKey, put: &Put) -> bool {
    key.phase == Phase::Owned && Owning::is_for_run(&put.value)
}

/// The token of a lock with this key.
fn granted_as(made: i64, value: &[u8]) -> FencingToken {
    Grant::marked(made, Value::mark(value)).token
}

/// The revision of that token.
fn since(made: i64, value: &[u8]) -> i64 {
    revision(granted_as(made, value))
}

/// The place of a request, by which a queue is ordered.
pub(super) fn order(put: &Put) -> (i64, u64) {
    (mirror::order(put.made, &put.value), Value::place(&put.value))
}

/// Whether the transaction takes locks from their holders.
pub(super) fn steals(transaction: &Transaction) -> bool {
    transaction.then.iter().any(|step| match step {
        // The ranges of its own queue do not count.
        Step::DeleteRange(start, _) => !start.windows(3).any(|part| part == b"/q/"),
        Step::Within(inner) => steals(inner),
        _ => false,
    })
}

/// Each answer gets the revision of the whole transaction.
fn stamp(answer: &mut Answer, revision: i64) {
    answer.revision = revision;
    for result in &mut answer.results {
        if let StepResult::Within(inner) = result {
            stamp(inner, revision);
        }
    }
}
