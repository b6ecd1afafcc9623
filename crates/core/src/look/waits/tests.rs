//! Tests of who waits for whom, in small examples.

mod giving_way;
mod watcher;

use std::time::{Duration, Instant};

use navlock_engine::Mode::{self, Exclusive, Shared};

use super::*;
use crate::{
    AgentInfo, ClientId,
    look::{Agent, Change, Entry, Event, LockId, LockName, Overview, Patience},
};

/// An overview that a test builds. Its agents are named by numbers.
pub(super) struct Example {
    pub(super) overview: Overview,
    pub(super) begin: Instant,
    made: u64,
}

impl Example {
    pub(super) fn new() -> Self {
        Self { overview: Overview::default(), begin: Instant::now(), made: 0 }
    }

    fn apply(&mut self, change: Change) {
        self.overview.apply(&Event { at: self.begin, change });
    }

    fn entry(&mut self, agent: u8, mode: Mode, inside: Option<LockId>) -> Entry {
        let client_id = ClientId::from_bytes([agent; 16]);
        if !self.overview.agents.contains_key(&client_id) {
            let (pid, command) = (100 + u32::from(agent), format!("/bin/p{agent}"));
            let info = AgentInfo { pid, command, ..AgentInfo::default() };
            let details = Agent::new("app".into(), info.into(), None);
            self.apply(Change::AgentCame { agent: client_id, details });
        }
        self.made += 1;
        let mut entry = Entry::new(LockId { client_id, serial: self.made }, mode);
        // The entries were made one second apart.
        entry.since = self.begin + Duration::from_secs(self.made);
        entry.inside = inside.into_iter().collect();
        entry
    }

    pub(super) fn held(&mut self, agent: u8, name: &str, mode: Mode) -> LockId {
        let entry = self.entry(agent, mode, None);
        let id = entry.id;
        self.apply(Change::Granted { name: name_of(name), entry });
        id
    }

    pub(super) fn waits(
        &mut self,
        agent: u8,
        name: &str,
        mode: Mode,
        inside: Option<LockId>,
    ) -> LockId {
        let entry = self.entry(agent, mode, inside);
        let id = entry.id;
        self.apply(Change::Requested { name: name_of(name), entry });
        id
    }

    fn put_patience(&mut self, name: &str, id: LockId, patience: Patience) {
        let pending = &mut self.overview.queues.get_mut(&name_of(name)).unwrap().pending;
        pending.iter_mut().find(|entry| entry.id == id).unwrap().patience = patience;
    }

    pub(super) fn ends(&mut self, name: &str, id: LockId) {
        self.apply(Change::Aborted { name: name_of(name), id });
    }

    /// The names in each deadlock, and whether the deadlock is certain. The names of locks are in
    /// capitals.
    fn told(&self) -> Vec<(String, bool)> {
        let name = |member: &Member| {
            let name = member.name.name.to_string();
            if member.is_held { name.to_uppercase() } else { name }
        };
        let told = deadlocks(&self.overview).into_iter().map(|deadlock| {
            let names: Vec<_> = deadlock.members.iter().map(name).collect();
            (names.join(" "), deadlock.is_certain)
        });
        told.collect()
    }
}

fn name_of(name: &str) -> LockName {
    LockName::new("app", name.try_into().unwrap())
}

fn certain(members: &str) -> Vec<(String, bool)> {
    vec![(members.to_owned(), true)]
}

#[test]
fn two_who_ask_for_each_others_locks_inside_their_own_are_in_a_deadlock() {
    let mut example = Example::new();
    let (a, b) = (example.held(1, "a", Exclusive), example.held(2, "b", Exclusive));
    example.waits(1, "b", Exclusive, Some(a));
    assert_eq!(example.told(), []);
    let last = example.waits(2, "a", Exclusive, Some(b));
    assert_eq!(example.told(), certain("a A b B"));
    assert_eq!(deadlocks(&example.overview)[0].gives_way(), last);
    example.ends("a", last);
    assert_eq!(example.told(), []);
}

#[test]
fn a_holder_that_asks_again_to_share_behind_a_writer_is_in_a_deadlock() {
    let mut example = Example::new();
    let a = example.held(1, "a", Shared);
    example.waits(2, "a", Exclusive, None);
    example.waits(1, "a", Shared, Some(a));
    assert_eq!(example.told(), certain("a a A"));
    // There is no deadlock among those who share the lock, because the last of them goes on when
    // the others have ended.
    let mut example = Example::new();
    let a = example.held(1, "a", Shared);
    example.held(2, "a", Shared);
    example.waits(1, "a", Shared, Some(a));
    assert_eq!(example.told(), []);
}

#[test]
fn a_request_that_is_perhaps_inside_a_lock_is_shown_above_the_lock_s_agent() {
    let mut example = Example::new();
    let here = example.held(3, "b", Exclusive);
    let there = example.entry(1, Exclusive, None);
    let some_there = LockId::some_of(there.id.client_id);
    example.apply(Change::Granted { name: name_of("a"), entry: there.clone() });
    example.waits(2, "b", Exclusive, Some(some_there));
    let rows = |example: &Example| {
        let trees = tree(&example.overview);
        let rows = trees.iter().flat_map(|root| &root.rows);
        rows.map(|row| (row.entry.id.client_id.to_bytes()[0], row.why)).collect::<Vec<_>>()
    };
    let below = [(3, None), (2, Some(Why::Held)), (1, Some(Why::InsideAgent))];
    assert_eq!(rows(&example), below);
    // This deadlock is not certain.
    example.waits(3, "a", Exclusive, Some(here));
    assert_eq!(example.told(), [("a A b B".to_owned(), false)]);
    // Each of two requests may be inside the lock. The lock's agent is shown below one of them, and
    // the deadlock goes through the other one.
    let mut example = Example::new();
    example.held(3, "b", Exclusive);
    let c = example.held(5, "c", Exclusive);
    example.apply(Change::Granted { name: name_of("a"), entry: there });
    example.waits(2, "b", Exclusive, Some(some_there));
    example.waits(4, "c", Exclusive, Some(some_there));
    assert_eq!(rows(&example)[..3], below);
    example.waits(5, "a", Exclusive, Some(c));
    let told = example.told();
    assert!(matches!(&told[..], [(_, false)]), "{told:?}");
    // A lock that is named is meant alone, so no request is shown below a lock of another number.
    let mut example = Example::new();
    example.held(3, "b", Exclusive);
    let other = example.held(1, "a", Exclusive);
    example.waits(2, "b", Exclusive, Some(LockId { serial: 99, ..other }));
    assert_eq!(rows(&example), below[..2]);
}

#[test]
fn one_that_waits_for_itself_by_way_of_what_its_command_runs_is_in_a_deadlock() {
    let mut example = Example::new();
    let a = example.held(1, "a", Exclusive);
    example.waits(2, "a", Exclusive, Some(a));
    assert_eq!(example.told(), certain("a A"));
}

#[test]
fn a_stolen_lock_is_waited_for_by_nobody() {
    let mut example = Example::new();
    let (a, b) = (example.held(1, "a", Exclusive), example.held(2, "b", Exclusive));
    example.waits(1, "b", Exclusive, Some(a));
    example.waits(2, "a", Exclusive, Some(b));
    example.ends("a", a);
    example.held(3, "a", Exclusive);
    assert_eq!(example.told(), []);
}

#[test]
fn a_cycle_that_nobody_has_said_to_be_one_is_possible() {
    let mut example = Example::new();
    let (a, _) = (example.held(1, "a", Exclusive), example.held(2, "b", Exclusive));
    example.waits(1, "b", Exclusive, Some(a));
    example.waits(2, "a", Exclusive, None);
    assert_eq!(example.told(), [("a A b B".to_owned(), false)]);
}

#[test]
fn two_tasks_of_one_agent_that_want_the_same_lock_are_not_even_possibly_in_a_deadlock() {
    let mut example = Example::new();
    example.held(1, "a", Exclusive);
    example.waits(1, "a", Exclusive, None);
    example.waits(1, "a", Exclusive, None);
    assert_eq!(example.told(), []);
    // There is no deadlock either if the agent waits for others too.
    example.held(2, "b", Exclusive);
    example.waits(1, "b", Exclusive, None);
    assert_eq!(example.told(), []);
    // Now there is a deadlock.
    example.waits(2, "a", Exclusive, None);
    assert_eq!(example.told(), [("a A b B".to_owned(), false)]);
}

#[test]
fn a_request_that_is_perhaps_inside_a_lock_of_somebody_is_perhaps_in_a_deadlock() {
    let mut example = Example::new();
    let a = example.held(1, "a", Exclusive);
    example.waits(2, "a", Exclusive, Some(LockId::some_of(a.client_id)));
    assert_eq!(example.told(), [("a A".to_owned(), false)]);
}

#[test]
fn a_request_that_was_said_to_be_inside_one_lock_is_inside_no_other() {
    let mut example = Example::new();
    let (c, _) = (example.held(1, "c", Exclusive), example.held(1, "a", Exclusive));
    example.held(2, "b", Exclusive);
    example.waits(1, "b", Exclusive, Some(c));
    example.waits(2, "a", Exclusive, None);
    assert_eq!(example.told(), []);
}

#[test]
fn a_request_is_not_inside_what_its_agent_has_taken_again_since() {
    let mut example = Example::new();
    let (a, b) = (example.held(1, "a", Exclusive), example.held(2, "b", Exclusive));
    example.waits(1, "b", Exclusive, Some(a));
    example.waits(2, "a", Exclusive, Some(b));
    let again = |example: &mut Example, after: u64| {
        let lock = &mut example.overview.queues.get_mut(&name_of("a")).unwrap().held[0];
        (lock.taken, lock.since) = (7, example.begin + Duration::from_secs(after));
    };
    // The lock was taken for the seventh time before the request was made, and in the second case
    // only after that.
    again(&mut example, 2);
    assert_eq!(example.told(), certain("a A b B"));
    again(&mut example, 4);
    assert_eq!(example.told(), []);
}

#[test]
fn as_many_deadlocks_are_told_as_have_to_be_broken() {
    let mut example = Example::new();
    let (a, b, c) = (
        example.held(1, "a", Exclusive),
        example.held(2, "b", Exclusive),
        example.held(3, "c", Exclusive),
    );
    example.waits(1, "b", Exclusive, Some(a));
    let by_two = example.waits(2, "a", Exclusive, Some(b));
    let by_three = example.waits(3, "a", Exclusive, Some(c));
    example.waits(1, "c", Exclusive, Some(a));
    let mut closed: Vec<_> = deadlocks(&example.overview).iter().map(Deadlock::gives_way).collect();
    closed.sort_by_key(|id| id.serial);
    // The last request is in one cycle with the third request, and the second request is in another
    // cycle.
    assert_eq!(closed.len(), 2);
    assert!(closed[0] == by_two && closed[1].serial > by_three.serial);
}

#[test]
fn a_deadlock_is_told_with_who_waits_for_what_and_who_is_in_the_way() {
    let mut example = Example::new();
    let (a, b) = (example.held(1, "a", Exclusive), example.held(2, "b", Shared));
    example.waits(3, "b", Exclusive, Some(a));
    example.waits(2, "a", Exclusive, Some(b));
    let told = deadlocks(&example.overview)[0].told(example.begin + Duration::from_secs(100));
    assert_eq!(
        told,
        "deadlock: these wait for each other, and none goes on unless one of them ends\n  \
         p2[102] holds \"b\" (shared) for 1m38s and inside it waits for \"a\" (exclusive) for 1m36s, \
         held by p1[101]\n  \
         p1[101] holds \"a\" (exclusive) for 1m39s, and inside it p3[103] waits for \"b\" (exclusive) \
         for 1m37s, held by p2[102]"
    );
}

#[test]
fn descriptions_by_other_agents_are_told_and_not_obeyed() {
    let mut example = Example::new();
    let a = example.held(1, "a\u{1b}[2J", Exclusive);
    example.waits(1, "a\u{1b}[2J", Exclusive, Some(a));
    let why = format!("\u{202e}\r\n{}", "y".repeat(1000));
    let info = AgentInfo { command: "x\u{1b}[2J".to_owned(), why, ..AgentInfo::default() };
    let details = Agent::new("app".into(), info.into(), None);
    example.apply(Change::AgentCame { agent: a.client_id, details });
    let told = deadlocks(&example.overview)[0].to_string();
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(!told.contains(['\u{1b}', '\u{202e}', '\r']), "{told:?}");
    assert!(told.len() < 1000, "{told}");
}

#[test]
fn roots_are_told_by_how_many_they_block_and_cycles_last() {
    let mut example = Example::new();
    // The first two agents are in a cycle.
    let (a, b) = (example.held(1, "a", Exclusive), example.held(2, "b", Exclusive));
    example.waits(1, "b", Exclusive, Some(a));
    example.waits(2, "a", Exclusive, Some(b));
    // Agent 3 blocks one agent. Agent 5 blocks three agents, one of them through the lock of
    // another agent.
    example.held(3, "c", Exclusive);
    example.waits(4, "c", Exclusive, None);
    let (_, e) = (example.held(5, "d", Shared), example.held(6, "e", Exclusive));
    example.waits(6, "d", Exclusive, Some(e));
    example.waits(7, "e", Exclusive, None);
    example.waits(8, "d", Shared, None);
    let roots = tree(&example.overview);
    let told: Vec<_> = roots.iter().map(|root| (root.blocks, root.is_cycle)).collect();
    assert_eq!(told, [(3, false), (1, false), (2, true)]);
    let row = |row: &Row<'_>| {
        let program = row.entry.id.client_id.to_bytes()[0];
        format!("{}{} {:?} {}", "-".repeat(row.depth), program, row.why, row.name.name)
    };
    let rows: Vec<_> = roots[0].rows.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            "5 None d",
            "-6 Some(Held) d",
            "--8 Some(Ahead) d",
            "--6 Some(Inside) e",
            "---7 Some(Held) e",
        ]
    );
    let cycle: Vec<_> = roots[2].rows.iter().map(row).collect();
    let once = ["1 None a", "-2 Some(Held) a", "--2 Some(Inside) b", "---1 Some(Held) b"];
    assert_eq!(cycle, once);
}

#[test]
fn ten_thousand_who_wait_and_ten_thousand_who_hold_are_told_of() {
    let mut example = Example::new();
    // The entries are put in directly, because each event would search its entry in a very long
    // queue.
    let many = 10_000_u64;
    let entry = |example: &Example, agent: u64, mode| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&agent.to_le_bytes());
        let id = LockId { client_id: ClientId::from_bytes(bytes), serial: agent };
        let mut entry = Entry::new(id, mode);
        entry.since = example.begin + Duration::from_micros(agent);
        entry
    };
    let mut crowd = crate::look::Queue::default();
    for agent in 0..many {
        crowd.held.push(entry(&example, agent, Shared));
        let mut waits = entry(&example, many + agent, Exclusive);
        waits.inside = vec![crowd.held[usize::try_from(agent).unwrap()].id];
        crowd.pending.push(waits);
        let mut alone = crate::look::Queue::default();
        alone.held.push(entry(&example, 2 * many + agent, Exclusive));
        alone.pending.push(entry(&example, 3 * many + agent, Exclusive));
        example.overview.queues.insert(name_of(&format!("n{agent}")), alone);
    }
    example.overview.queues.insert(name_of("crowd"), crowd);
    assert!(!deadlocks(&example.overview).is_empty());
    let roots = tree(&example.overview);
    assert_eq!(roots.len(), 10_001);
    assert_eq!(roots.iter().map(|root| root.rows.len()).sum::<usize>(), 40_000);
}

#[test]
fn all_of_many_deadlocks_that_have_nothing_to_do_with_each_other_are_told() {
    let mut example = Example::new();
    for pair in 0..100 {
        let (one, two, a, b) = (2 * pair, 2 * pair + 1, format!("a{pair}"), format!("b{pair}"));
        let (held_a, held_b) = (example.held(one, &a, Exclusive), example.held(two, &b, Exclusive));
        example.waits(one, &b, Exclusive, Some(held_a));
        example.waits(two, &a, Exclusive, Some(held_b));
    }
    let told = example.told();
    assert_eq!(told.len(), 100);
    assert!(told.iter().all(|(_, is_certain)| *is_certain));
}
