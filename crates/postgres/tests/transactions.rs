//! The functions of `schema.sql` beside a store in memory, over random transactions: the same answers, revisions and
//! keys.

mod server;

use std::collections::{BTreeMap, BTreeSet};

use navlock_machines::{
    call_failure::Failure,
    data::{Answer, Check, KeyValue, Step, StepResult, Transaction},
    key_store::KeyStore,
    load::Turn,
};
use navlock_postgres::Postgres;

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one_of<T: Copy>(&mut self, some: &[T]) -> T {
        let nth = self.below(some.len() as u64);
        some[usize::try_from(nth).unwrap_or_default()]
    }
}

/// The store in memory, whose revisions begin where the real one's do.
#[derive(Default)]
struct Memory {
    cluster: u64,
    revision: i64,
    keys: BTreeMap<Vec<u8>, KeyValue>,
    leases: BTreeSet<i64>,
    /// What there was, by revision.
    past: BTreeMap<i64, BTreeMap<Vec<u8>, KeyValue>>,
}

impl Memory {
    /// Each transaction has a revision, whether it changes anything or not.
    fn transact(&mut self, of: &Transaction) -> Option<Answer> {
        let (before, next) = (self.keys.clone(), self.revision + 1);
        let mut path = self.path(of).into_iter();
        let answer = self.run(of, next, &mut path);
        if answer.is_none() {
            self.keys = before;
        }
        self.revision = next;
        self.past.insert(next, self.keys.clone());
        answer
    }

    fn holds(&self, check: &Check) -> bool {
        match check {
            Check::Absent(key) => !self.keys.contains_key(key),
            Check::Present(key) => self.keys.contains_key(key),
            Check::MadeIn(key, made) => self.keys.get(key).is_some_and(|kv| kv.made == *made),
            Check::WrittenIn(key, written) => {
                self.keys.get(key).is_some_and(|kv| kv.written == *written)
            }
            Check::Empty(first, behind) => {
                self.keys.range(first.clone()..behind.clone()).next().is_none()
            }
            Check::NoneAfter(first, behind, after) => {
                self.keys.range(first.clone()..behind.clone()).all(|(_, kv)| kv.made <= *after)
            }
        }
    }

    fn path(&self, of: &Transaction) -> Vec<bool> {
        let succeeded = of.when.iter().all(|check| self.holds(check));
        let steps = if succeeded { &of.then } else { &of.or_else };
        let within = steps.iter().flat_map(|step| match step {
            Step::Within(inner) => self.path(inner),
            _ => Vec::new(),
        });
        [succeeded].into_iter().chain(within).collect()
    }

    fn run(
        &mut self,
        of: &Transaction,
        revision: i64,
        path: &mut impl Iterator<Item = bool>,
    ) -> Option<Answer> {
        let succeeded = path.next()?;
        let steps = if succeeded { &of.then } else { &of.or_else };
        let mut results = Vec::new();
        for step in steps {
            results.push(match step {
                Step::Put { key, value, lease } => {
                    if *lease != 0 && !self.leases.contains(lease) {
                        return None;
                    }
                    let made = self.keys.get(key).map_or(revision, |kv| kv.made);
                    let (key, value, written) = (key.clone(), value.clone(), revision);
                    self.keys
                        .insert(key.clone(), KeyValue { key, value, made, written, lease: *lease });
                    StepResult::Done
                }
                Step::Get(key) => StepResult::Got(self.keys.get(key).map(|kv| kv.made)),
                Step::Count(first, behind) => {
                    let count = self.keys.range(first.clone()..behind.clone()).count();
                    StepResult::Counted(i64::try_from(count).ok()?)
                }
                Step::First(first, behind) => {
                    let found = self.keys.range(first.clone()..behind.clone()).next();
                    StepResult::First(found.map(|(_, kv)| Box::new(kv.clone())))
                }
                Step::Delete(key) => {
                    self.keys.remove(key);
                    StepResult::Done
                }
                Step::DeleteRange(first, behind) => {
                    let gone = self.keys.range(first.clone()..behind.clone());
                    let gone: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
                    self.keys.retain(|key, _| !gone.contains(key));
                    StepResult::Deleted(gone)
                }
                Step::Within(inner) => StepResult::Within(self.run(inner, revision, path)?),
            });
        }
        Some(Answer { revision, cluster: self.cluster, succeeded, results })
    }
}

/// Random transactions.
struct Maker {
    random: Random,
    leases: Vec<i64>,
    last: i64,
}

impl Maker {
    fn key(&mut self) -> Vec<u8> {
        let (name, phase) =
            (self.random.one_of(&["a", "b"]), self.random.one_of(&["h/x", "h/s", "q/x"]));
        format!("n/6/b/l/{name}/{phase}/{}", self.random.below(3)).into_bytes()
    }

    fn range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let range = self.random.one_of(&["a/h/", "a/h/x/", "a/", "b/q/", "b/"]);
        let first = format!("n/6/b/l/{range}").into_bytes();
        (first.clone(), navlock_machines::data::prefix_end(&first))
    }

    fn revision(&mut self) -> i64 {
        self.last - i64::try_from(self.random.below(4)).unwrap_or_default()
    }

    fn check(&mut self) -> Check {
        match self.random.below(6) {
            0 => Check::Absent(self.key()),
            1 => Check::Present(self.key()),
            2 => Check::MadeIn(self.key(), self.revision()),
            3 => Check::WrittenIn(self.key(), self.revision()),
            4 => {
                let (first, behind) = self.range();
                Check::Empty(first, behind)
            }
            _ => {
                let (first, behind) = self.range();
                Check::NoneAfter(first, behind, self.revision())
            }
        }
    }

    fn step(&mut self, depth: u32) -> Step {
        match self.random.below(if depth < 2 { 11 } else { 8 }) {
            0..=2 => {
                let value = vec![0, 255, u8::try_from(self.random.below(200)).unwrap_or_default()];
                let lease = self.random.one_of(&self.leases);
                Step::Put { key: self.key(), value, lease }
            }
            3 => Step::Get(self.key()),
            4 => {
                let (first, behind) = self.range();
                Step::Count(first, behind)
            }
            5 => {
                let (first, behind) = self.range();
                Step::First(first, behind)
            }
            6 => Step::Delete(self.key()),
            7 => {
                let (first, behind) = self.range();
                Step::DeleteRange(first, behind)
            }
            _ => Step::Within(self.transaction(depth + 1)),
        }
    }

    fn transaction(&mut self, depth: u32) -> Transaction {
        let checks = self.random.below(3);
        let mut steps = || -> Vec<Step> {
            let count = self.random.below(4);
            (0..count).map(|_| self.step(depth)).collect()
        };
        let (then, or_else) = (steps(), steps());
        Transaction { when: (0..checks).map(|_| self.check()).collect(), then, or_else }
    }
}

#[test]
fn the_functions_do_what_a_store_in_memory_does() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it can be made");
    runtime.block_on(async {
        let server = server::Server::start();
        let (store, _) = Postgres::connect(server.fresh()).await.expect("it can be reached");
        let mut memory = Memory::default();
        for _ in 0..2 {
            let (lease, _) = store.begin_lease().await.expect("it is given");
            memory.cluster = lease.cluster;
            memory.leases.insert(lease.id);
        }
        let everything = || store.list(b"n/6/b/".to_vec(), usize::MAX, 0);
        memory.revision = everything().await.expect("it can be listed").revision;
        // One that is not there, and none.
        let leases = memory.leases.iter().copied().chain([12345, 0]).collect();
        let mut maker = Maker { random: Random(2026), leases, last: memory.revision };
        for nth in 0..2000 {
            let transaction = maker.transaction(0);
            let expected = memory.transact(&transaction).ok_or(Failure::NoLease);
            let done = store.transact(transaction.clone(), Turn::Waits).await;
            assert_eq!(done, expected, "{nth}: {transaction:?}");
            maker.last = memory.revision;
            if nth % 10 == 0 {
                let listed = everything().await.expect("it can be listed");
                assert!(listed.found.iter().eq(memory.keys.values()), "{nth}");
                let at = maker.revision();
                let earlier = store.list(b"n/6/b/".to_vec(), usize::MAX, at).await;
                if let Some(past) = memory.past.get(&at) {
                    assert!(
                        earlier.expect("it is known").found.iter().eq(past.values()),
                        "{nth}: {at}"
                    );
                }
            }
        }
    });
}

/// What two machines put back after a crash of which one has not heard that it was robbed.
#[test]
fn who_was_robbed_just_before_a_crash_holds_no_more() {
    let server = server::Server::start();
    let options = server.fresh();
    let ask = |what: &str| {
        let schema = options.schema_name();
        let output = server.psql(&format!("set search_path = {schema}; select {what}"));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
    };
    let leases = [(); 2].map(|()| {
        let lease = ask("enlist(60000)");
        ask(&format!("begin_lease({lease}, 60000)"));
        lease
    });
    let held = |key: &str, made: u32, lease: &str| {
        format!(r#"["n/6/b/l/{key}", "00", {made}, {made}, {lease}]"#)
    };
    let [robbed, thief] = &leases;
    // By name: who is robbed, an owner beside its own lock, readers beside a writer that has gone, readers alone.
    let puts = [
        (
            robbed,
            vec![
                held("a/h/x/1", 5, robbed),
                held("b/h/x/o-1", 5, robbed),
                held("b/h/x/1", 6, robbed),
            ],
        ),
        (robbed, vec![held("c/h/x/1", 5, robbed), held("d/h/s/1", 5, robbed)]),
        (
            thief,
            vec![held("a/h/x/2", 6, thief), held("c/h/s/2", 7, thief), held("d/h/s/2", 6, thief)],
        ),
    ];
    server.psql(&format!("delete from {}.present", options.schema_name()));
    ask(&format!("renew({robbed}, '', '{{}}')"));
    let era = ask("(select era from present)");
    let of = |lease: &str| format!("[[{lease}, 60000]]");
    let all = |whose: &str| {
        let keys =
            puts.iter().filter(|(lease, _)| *lease == whose).flat_map(|(_, keys)| keys.clone());
        keys.collect::<Vec<_>>().join(",")
    };
    for lease in [robbed, thief] {
        // What is of another era changes nothing.
        ask(&format!("put_back({era} - 1, '{}', '[]')", of(lease)));
        assert_eq!(ask("(select recovers from present)"), "t");
        ask(&format!("put_back({era}, '{}', '[{}]')", of(lease), all(lease)));
    }
    assert_eq!(ask("(select recovers from present)"), "f");
    let left = ask("(select string_agg(substring(key from 9), ' ' order by key) from keys)");
    assert_eq!(left, "a/h/x/2 b/h/x/1 b/h/x/o-1 c/h/s/2 d/h/s/1 d/h/s/2");
}
