//! Jams, by hand.

use std::time::{Duration, Instant};

use navlock_engine::Mode::{self, Exclusive, Shared};

use super::*;
use crate::{
    AgentInfo, ClientId,
    look::{Agent, Change, Entry, Event, LockId, LockName, Overview},
};

/// An overview that is put together, with agents that are called by numbers.
pub(super) struct Jam {
    pub(super) overview: Overview,
    pub(super) begin: Instant,
    made: u64,
}

impl Jam {
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
        // One a second.
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

    /// It is said of a request that it may give up.
    fn gives_up(&mut self, name: &str, id: LockId) {
        let pending = &mut self.overview.queues.get_mut(&name_of(name)).unwrap().pending;
        pending.iter_mut().find(|entry| entry.id == id).unwrap().may_give_up = true;
    }

    pub(super) fn ends(&mut self, name: &str, id: LockId) {
        self.apply(Change::Aborted { name: name_of(name), id });
    }

    /// Each deadlock's names, with those of locks in capitals, and whether it is certain.
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
    let mut jam = Jam::new();
    let (a, b) = (jam.held(1, "a", Exclusive), jam.held(2, "b", Exclusive));
    jam.waits(1, "b", Exclusive, Some(a));
    assert_eq!(jam.told(), []);
    let last = jam.waits(2, "a", Exclusive, Some(b));
    assert_eq!(jam.told(), certain("a A b B"));
    assert_eq!(deadlocks(&jam.overview)[0].closed_by(), last);
    jam.ends("a", last);
    assert_eq!(jam.told(), []);
}

#[test]
fn who_asks_again_for_what_is_shared_behind_somebody_who_wants_it_alone_is_in_a_deadlock() {
    let mut jam = Jam::new();
    let a = jam.held(1, "a", Shared);
    jam.waits(2, "a", Exclusive, None);
    jam.waits(1, "a", Shared, Some(a));
    assert_eq!(jam.told(), certain("a a A"));
    // Not for the sake of those who share it: the last of them goes on when the others have ended.
    let mut jam = Jam::new();
    let a = jam.held(1, "a", Shared);
    jam.held(2, "a", Shared);
    jam.waits(1, "a", Shared, Some(a));
    assert_eq!(jam.told(), []);
}

#[test]
fn who_waits_inside_a_lock_of_another_machine_waits_perhaps_inside_what_its_agent_holds_there() {
    let mut jam = Jam::new();
    let here = jam.held(3, "b", Exclusive);
    let mut there = jam.entry(1, Exclusive, None);
    there.id.serial |= LockId::MADE_UP;
    let as_there = LockId { serial: 7, ..there.id };
    jam.apply(Change::Granted { name: name_of("a"), entry: there.clone() });
    jam.waits(2, "b", Exclusive, Some(as_there));
    let rows = |jam: &Jam| {
        let trees = tree(&jam.overview);
        let rows = trees.iter().flat_map(|root| &root.rows);
        rows.map(|row| (row.entry.id.client_id.to_bytes()[0], row.why)).collect::<Vec<_>>()
    };
    let below = [(3, None), (2, Some(Why::Held)), (1, Some(Why::InsideAgent))];
    assert_eq!(rows(&jam), below);
    // That is no deadlock that is certain.
    jam.waits(3, "a", Exclusive, Some(here));
    assert_eq!(jam.told(), [("a A b B".to_owned(), false)]);
    // Of several requests it may be each: it is shown below one, and goes by the other.
    let mut jam = Jam::new();
    jam.held(3, "b", Exclusive);
    let c = jam.held(5, "c", Exclusive);
    jam.apply(Change::Granted { name: name_of("a"), entry: there });
    jam.waits(2, "b", Exclusive, Some(as_there));
    jam.waits(4, "c", Exclusive, Some(as_there));
    assert_eq!(rows(&jam)[..3], below);
    jam.waits(5, "a", Exclusive, Some(c));
    let told = jam.told();
    assert!(matches!(&told[..], [(_, false)]), "{told:?}");
    // What is held here has the number by which it is said.
    let mut jam = Jam::new();
    jam.held(3, "b", Exclusive);
    let other = jam.held(1, "a", Exclusive);
    jam.waits(2, "b", Exclusive, Some(LockId { serial: 99, ..other }));
    assert_eq!(rows(&jam), below[..2]);
}

#[test]
fn one_that_waits_for_itself_by_way_of_what_its_command_runs_is_in_a_deadlock() {
    let mut jam = Jam::new();
    let a = jam.held(1, "a", Exclusive);
    jam.waits(2, "a", Exclusive, Some(a));
    assert_eq!(jam.told(), certain("a A"));
}

#[test]
fn what_is_stolen_is_waited_for_by_nobody() {
    let mut jam = Jam::new();
    let (a, b) = (jam.held(1, "a", Exclusive), jam.held(2, "b", Exclusive));
    jam.waits(1, "b", Exclusive, Some(a));
    jam.waits(2, "a", Exclusive, Some(b));
    jam.ends("a", a);
    jam.held(3, "a", Exclusive);
    assert_eq!(jam.told(), []);
}

#[test]
fn a_circle_that_nobody_has_said_to_be_one_is_possible() {
    let mut jam = Jam::new();
    let (a, _) = (jam.held(1, "a", Exclusive), jam.held(2, "b", Exclusive));
    jam.waits(1, "b", Exclusive, Some(a));
    jam.waits(2, "a", Exclusive, None);
    assert_eq!(jam.told(), [("a A b B".to_owned(), false)]);
}

#[test]
fn two_tasks_of_one_agent_that_want_the_same_lock_are_not_even_possibly_in_a_deadlock() {
    let mut jam = Jam::new();
    jam.held(1, "a", Exclusive);
    jam.waits(1, "a", Exclusive, None);
    jam.waits(1, "a", Exclusive, None);
    assert_eq!(jam.told(), []);
    // Nor if it waits for others as well.
    jam.held(2, "b", Exclusive);
    jam.waits(1, "b", Exclusive, None);
    assert_eq!(jam.told(), []);
    // But so it is.
    jam.waits(2, "a", Exclusive, None);
    assert_eq!(jam.told(), [("a A b B".to_owned(), false)]);
}

#[test]
fn nobody_waits_for_ever_for_what_may_give_up() {
    let mut jam = Jam::new();
    let (a, b) = (jam.held(1, "a", Shared), jam.held(2, "b", Exclusive));
    let gives_up = jam.waits(3, "a", Exclusive, None);
    jam.waits(2, "a", Shared, Some(b));
    jam.waits(1, "b", Exclusive, Some(a));
    assert_eq!(jam.told(), certain("b B a a A"));
    jam.gives_up("a", gives_up);
    assert_eq!(jam.told(), [("b B a a A".to_owned(), false)]);
    // But for what is before that.
    let mut jam = Jam::new();
    let (a, b) = (jam.held(1, "a", Shared), jam.held(2, "b", Exclusive));
    jam.waits(4, "a", Exclusive, None);
    let gives_up = jam.waits(3, "a", Exclusive, None);
    jam.gives_up("a", gives_up);
    jam.waits(2, "a", Shared, Some(b));
    jam.waits(1, "b", Exclusive, Some(a));
    assert_eq!(jam.told(), certain("b B a a A"));
}

#[test]
fn a_request_that_was_said_to_be_inside_one_lock_is_inside_no_other() {
    let mut jam = Jam::new();
    let (c, _) = (jam.held(1, "c", Exclusive), jam.held(1, "a", Exclusive));
    jam.held(2, "b", Exclusive);
    jam.waits(1, "b", Exclusive, Some(c));
    jam.waits(2, "a", Exclusive, None);
    assert_eq!(jam.told(), []);
}

#[test]
fn a_request_is_not_inside_what_its_agent_has_taken_again_since() {
    let mut jam = Jam::new();
    let (a, b) = (jam.held(1, "a", Exclusive), jam.held(2, "b", Exclusive));
    jam.waits(1, "b", Exclusive, Some(a));
    jam.waits(2, "a", Exclusive, Some(b));
    let again = |jam: &mut Jam, after: u64| {
        let lock = &mut jam.overview.queues.get_mut(&name_of("a")).unwrap().held[0];
        (lock.taken, lock.since) = (7, jam.begin + Duration::from_secs(after));
    };
    // It was held for the seventh time when the request was made, or only after that.
    again(&mut jam, 2);
    assert_eq!(jam.told(), certain("a A b B"));
    again(&mut jam, 4);
    assert_eq!(jam.told(), []);
}

#[test]
fn as_many_deadlocks_are_told_as_have_to_be_broken() {
    let mut jam = Jam::new();
    let (a, b, c) =
        (jam.held(1, "a", Exclusive), jam.held(2, "b", Exclusive), jam.held(3, "c", Exclusive));
    jam.waits(1, "b", Exclusive, Some(a));
    let by_two = jam.waits(2, "a", Exclusive, Some(b));
    let by_three = jam.waits(3, "a", Exclusive, Some(c));
    jam.waits(1, "c", Exclusive, Some(a));
    let mut closed: Vec<_> = deadlocks(&jam.overview).iter().map(Deadlock::closed_by).collect();
    closed.sort_by_key(|id| id.serial);
    // The last request is in the circle with the third one, the second one in another.
    assert_eq!(closed.len(), 2);
    assert!(closed[0] == by_two && closed[1].serial > by_three.serial);
}

#[test]
fn a_deadlock_is_told_with_who_waits_for_what_and_who_is_in_the_way() {
    let mut jam = Jam::new();
    let (a, b) = (jam.held(1, "a", Exclusive), jam.held(2, "b", Shared));
    jam.waits(3, "b", Exclusive, Some(a));
    jam.waits(2, "a", Exclusive, Some(b));
    let told = deadlocks(&jam.overview)[0].told(jam.begin + Duration::from_secs(100));
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
fn what_others_say_of_themselves_is_told_and_not_obeyed() {
    let mut jam = Jam::new();
    let a = jam.held(1, "a\u{1b}[2J", Exclusive);
    jam.waits(1, "a\u{1b}[2J", Exclusive, Some(a));
    let why = format!("\u{202e}\r\n{}", "y".repeat(1000));
    let info = AgentInfo { command: "x\u{1b}[2J".to_owned(), why, ..AgentInfo::default() };
    let details = Agent::new("app".into(), info.into(), None);
    jam.apply(Change::AgentCame { agent: a.client_id, details });
    let told = deadlocks(&jam.overview)[0].to_string();
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(!told.contains(['\u{1b}', '\u{202e}', '\r']), "{told:?}");
    assert!(told.len() < 1000, "{told}");
}

#[test]
fn roots_are_told_by_how_many_they_block_and_circles_last() {
    let mut jam = Jam::new();
    // A circle.
    let (a, b) = (jam.held(1, "a", Exclusive), jam.held(2, "b", Exclusive));
    jam.waits(1, "b", Exclusive, Some(a));
    jam.waits(2, "a", Exclusive, Some(b));
    // One that blocks one, and one that blocks three: one of them by way of another's lock.
    jam.held(3, "c", Exclusive);
    jam.waits(4, "c", Exclusive, None);
    let (_, e) = (jam.held(5, "d", Shared), jam.held(6, "e", Exclusive));
    jam.waits(6, "d", Exclusive, Some(e));
    jam.waits(7, "e", Exclusive, None);
    jam.waits(8, "d", Shared, None);
    let roots = tree(&jam.overview);
    let told: Vec<_> = roots.iter().map(|root| (root.blocks, root.is_circle)).collect();
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
    let circle: Vec<_> = roots[2].rows.iter().map(row).collect();
    let once = ["1 None a", "-2 Some(Held) a", "--2 Some(Inside) b", "---1 Some(Held) b"];
    assert_eq!(circle, once);
}

#[test]
fn ten_thousand_who_wait_and_ten_thousand_who_hold_are_told_of() {
    let mut jam = Jam::new();
    // Put in by hand: an event for each would look for it in a queue of so many.
    let many = 10_000_u64;
    let entry = |jam: &Jam, agent: u64, mode| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&agent.to_le_bytes());
        let id = LockId { client_id: ClientId::from_bytes(bytes), serial: agent };
        let mut entry = Entry::new(id, mode);
        entry.since = jam.begin + Duration::from_micros(agent);
        entry
    };
    let mut crowd = crate::look::Queue::default();
    for agent in 0..many {
        crowd.held.push(entry(&jam, agent, Shared));
        let mut waits = entry(&jam, many + agent, Exclusive);
        waits.inside = vec![crowd.held[usize::try_from(agent).unwrap()].id];
        crowd.pending.push(waits);
        let mut alone = crate::look::Queue::default();
        alone.held.push(entry(&jam, 2 * many + agent, Exclusive));
        alone.pending.push(entry(&jam, 3 * many + agent, Exclusive));
        jam.overview.queues.insert(name_of(&format!("n{agent}")), alone);
    }
    jam.overview.queues.insert(name_of("crowd"), crowd);
    assert!(!deadlocks(&jam.overview).is_empty());
    let roots = tree(&jam.overview);
    assert_eq!(roots.len(), 10_001);
    assert_eq!(roots.iter().map(|root| root.rows.len()).sum::<usize>(), 40_000);
}

#[test]
fn a_deadlock_is_confirmed_once_when_it_has_lasted() {
    let mut jam = Jam::new();
    let second = Duration::from_secs(1);
    let mut watcher = Watcher::new(second);
    let (a, b) = (jam.held(1, "a", Exclusive), jam.held(2, "b", Exclusive));
    jam.waits(1, "b", Exclusive, Some(a));
    let last = jam.waits(2, "a", Exclusive, Some(b));
    let now = jam.begin;
    assert_eq!(watcher.look(&jam.overview, now), []);
    assert_eq!(watcher.next(), Some(now + second));
    assert_eq!(watcher.look(&jam.overview, now + second / 2), []);
    // Others come, which changes nothing of it.
    jam.waits(3, "a", Exclusive, None);
    let confirmed = watcher.look(&jam.overview, now + second);
    assert_eq!(confirmed.iter().map(Deadlock::closed_by).collect::<Vec<_>>(), [last]);
    assert_eq!(watcher.closed_by(last), Some(&confirmed[0]));
    assert_eq!(watcher.look(&jam.overview, now + 2 * second), []);
    assert_eq!((watcher.next(), watcher.confirmed().count()), (None, 1));
    jam.ends("a", last);
    assert_eq!(watcher.look(&jam.overview, now + 3 * second), []);
    assert_eq!((watcher.closed_by(last), watcher.confirmed().count()), (None, 0));
}

#[test]
fn a_deadlock_that_is_put_off_has_to_last_once_more() {
    let mut jam = Jam::new();
    let second = Duration::from_secs(1);
    let mut watcher = Watcher::new(second);
    let (a, b) = (jam.held(1, "a", Exclusive), jam.held(2, "b", Exclusive));
    jam.waits(1, "b", Exclusive, Some(a));
    let last = jam.waits(2, "a", Exclusive, Some(b));
    let now = jam.begin;
    assert_eq!(watcher.look(&jam.overview, now), []);
    assert_eq!(watcher.look(&jam.overview, now + second).len(), 1);
    watcher.put_off(last);
    assert_eq!(watcher.confirmed().count(), 0);
    assert_eq!(watcher.look(&jam.overview, now + 2 * second), []);
    assert_eq!(watcher.next(), Some(now + 3 * second));
    assert_eq!(watcher.look(&jam.overview, now + 3 * second).len(), 1);
}

#[test]
fn a_deadlock_that_another_one_has_followed_is_confirmed_anew() {
    let mut jam = Jam::new();
    let second = Duration::from_secs(1);
    let mut watcher = Watcher::new(second);
    let (a, b) = (jam.held(1, "a", Exclusive), jam.held(2, "b", Exclusive));
    jam.waits(1, "b", Exclusive, Some(a));
    let first = jam.waits(2, "a", Exclusive, Some(b));
    let now = jam.begin;
    assert_eq!(watcher.look(&jam.overview, now), []);
    jam.ends("a", first);
    let second_one = jam.waits(2, "a", Exclusive, Some(b));
    assert_eq!(watcher.look(&jam.overview, now + second), []);
    let confirmed = watcher.look(&jam.overview, now + 2 * second);
    assert_eq!(confirmed.iter().map(Deadlock::closed_by).collect::<Vec<_>>(), [second_one]);
}

#[test]
fn all_of_many_deadlocks_that_have_nothing_to_do_with_each_other_are_told() {
    let mut jam = Jam::new();
    for pair in 0..100 {
        let (one, two, a, b) = (2 * pair, 2 * pair + 1, format!("a{pair}"), format!("b{pair}"));
        let (held_a, held_b) = (jam.held(one, &a, Exclusive), jam.held(two, &b, Exclusive));
        jam.waits(one, &b, Exclusive, Some(held_a));
        jam.waits(two, &a, Exclusive, Some(held_b));
    }
    let told = jam.told();
    assert_eq!(told.len(), 100);
    assert!(told.iter().all(|(_, is_certain)| *is_certain));
}
