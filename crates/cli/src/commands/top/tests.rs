//! What is shown, and what keys do, without a terminal and without a broker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use navlock::{
    AgentInfo, ClientId, FencingToken, Mode, ResourceName,
    look::{Agent, Change, Client, ClientState, Entry, Event, LockId, LockName, Overview},
};
use navlock_platform::process::Seen;
use ratatui_core::{
    backend::TestBackend,
    style::{Color, Modifier},
    terminal::Terminal,
};

use super::{
    data::Heard,
    model::{Key, Model, View, Wish},
    view,
};
use crate::{remedy::Here, text::width};

/// A broker that is made up, with what is shown of it.
struct World {
    model: Model,
    now: Instant,
    overview: Overview,
    serial: u64,
}

fn nobody(_: u32) -> Option<Seen> {
    None
}

/// As the kernel would say: 13 is stopped.
#[expect(clippy::unnecessary_wraps, reason = "of others it would be none")]
fn thirteen(pid: u32) -> Option<Seen> {
    Some(Seen { is_stopped: pid == 13, parent: 1 })
}

fn name(text: &str) -> LockName {
    LockName::new("default", text.try_into().unwrap())
}

/// The client id of a process.
fn client(pid: u32) -> ClientId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&pid.to_be_bytes());
    ClientId::from_bytes(bytes)
}

impl World {
    fn new() -> Self {
        Self::with(nobody)
    }

    fn with(process: fn(u32) -> Option<Seen>) -> Self {
        let now = Instant::now();
        let model = Model::new(Here::made_up(process), "/run/sock".to_owned(), now);
        let mut world = Self { model, now, overview: Overview::default(), serial: 0 };
        world.hear(Heard::Anew { overview: Box::default(), missed: 0, namespace: None });
        world
    }

    fn hear(&mut self, heard: Heard) {
        self.model.hear(heard);
        self.model.tick(self.now);
    }

    fn happens(&mut self, change: Change) {
        let event = Event { at: self.now, change };
        self.overview.apply(&event);
        self.hear(Heard::Events(vec![event]));
    }

    /// A process is there.
    fn comes(&mut self, pid: u32, command: &str) {
        let mut details = Client::new(pid, ClientState::Connected);
        details.since = self.now;
        self.happens(Change::ClientCame { client: pid.into(), details });
        let mut info = AgentInfo::default();
        info.pid = pid;
        command.clone_into(&mut info.command);
        let details = Agent::new("default".into(), Arc::new(info), Some(pid.into()));
        self.happens(Change::AgentCame { agent: client(pid), details });
    }

    fn entry(&mut self, pid: u32, mode: Mode) -> Entry {
        if !self.overview.agents.contains_key(&client(pid)) {
            self.comes(pid, "/usr/bin/make -j4");
        }
        self.serial += 1;
        let mut entry = Entry::new(LockId { client_id: client(pid), serial: self.serial }, mode);
        entry.since = self.now;
        entry
    }

    fn holds(&mut self, pid: u32, name: &LockName) -> Entry {
        let mut entry = self.entry(pid, Mode::Exclusive);
        entry.token = Some(FencingToken::new(self.serial));
        self.happens(Change::Granted { name: name.clone(), entry: entry.clone() });
        entry
    }

    fn waits(&mut self, pid: u32, name: &LockName) -> Entry {
        let entry = self.entry(pid, Mode::Exclusive);
        self.happens(Change::Requested { name: name.clone(), entry: entry.clone() });
        entry
    }

    /// What was requested is granted.
    fn is_granted(&mut self, name: &LockName, entry: &Entry) {
        let mut entry = entry.clone();
        entry.since = self.now;
        self.happens(Change::Granted { name: name.clone(), entry });
    }

    fn releases(&mut self, name: &LockName, entry: &Entry) {
        self.happens(Change::Released { name: name.clone(), id: entry.id });
    }

    fn passes(&mut self, time: Duration) {
        self.now += time;
        self.model.tick(self.now);
    }

    fn press(&mut self, keys: &str) -> Option<Wish> {
        keys.chars().map(|key| self.model.press(Key::Char(key))).last().flatten()
    }

    /// The rows of the screen.
    fn shows(&mut self, columns: u16, rows: u16) -> Vec<String> {
        self.model.size = (columns, rows);
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| view::draw(&self.model, frame.buffer_mut())).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| {
            let mut row = String::new();
            let mut skip = 0;
            for x in 0..columns {
                let symbol = buffer[(x, y)].symbol();
                if skip == 0 {
                    row.push_str(symbol);
                    skip = width(symbol).max(1);
                }
                skip -= 1;
            }
            row
        };
        (0..rows).map(row).collect()
    }

    fn screen(&mut self) -> String {
        self.shows(80, 24).join("\n")
    }

    /// The words of the rows of the table.
    fn table(&mut self) -> Vec<Vec<String>> {
        let rows = self.shows(160, 24);
        let rows = rows[3..].iter().take_while(|row| !row.trim().is_empty());
        rows.map(|row| row.split_whitespace().map(str::to_owned).collect()).collect()
    }

    fn names(&mut self) -> Vec<String> {
        self.table().into_iter().map(|mut row| row.remove(0)).collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn who_has_waited_longest_comes_first_and_then_what_is_held_longest() {
    let mut world = World::new();
    for (pid, text) in [(1, "a"), (2, "b"), (3, "c")] {
        world.holds(pid, &name(text));
        world.passes(SECOND);
    }
    assert_eq!(world.names(), ["a", "b", "c"]);
    world.waits(4, &name("c"));
    world.passes(SECOND);
    world.waits(5, &name("b"));
    assert_eq!(world.names(), ["c", "b", "a"]);
    world.press("r");
    assert_eq!(world.names(), ["a", "b", "c"]);
    let row = &world.table()[2];
    assert_eq!(row[..6], ["c", "exclusive", "make[3]", "2s", "1", "1s"]);
}

#[test]
fn it_can_be_sorted_by_each_column() {
    let mut world = World::new();
    let (a, b) = (name("a"), name("b"));
    let held = world.holds(1, &a);
    world.holds(2, &b);
    let waits = world.waits(3, &a);
    world.passes(SECOND);
    world.releases(&a, &held);
    world.is_granted(&a, &waits);
    world.waits(4, &b);
    // Of these, a was held first and has seen more; b is waited for.
    for first in ["b", "b", "b", "a", "a", "a", "a"] {
        assert_eq!(world.names()[0], first, "{}", world.screen());
        world.press("s");
    }
    assert_eq!(world.names()[0], "b");
}

#[test]
fn rates_and_waits_are_counted_from_what_happens() {
    let mut world = World::new();
    let db = name("db");
    let mut held = world.holds(1, &db);
    for _ in 0..9 {
        let next = world.waits(1, &db);
        world.passes(Duration::from_millis(100));
        world.releases(&db, &held);
        world.is_granted(&db, &next);
        // What is told twice is not counted twice.
        world.is_granted(&db, &next);
        held = next;
    }
    let row = &world.table()[0];
    // Nine of ten waited for 100 ms, all within the first second.
    assert_eq!(row[row.len() - 3..], ["10/s", "90.0ms", "100.0ms"]);
    world.passes(9 * SECOND);
    assert!(world.table()[0].contains(&"1.0/s".to_owned()), "{}", world.screen());
}

#[test]
fn a_name_is_shown_with_its_queue_in_order_and_what_has_happened() {
    let mut world = World::with(thirteen);
    let db = name("db");
    let before = world.holds(7, &db);
    world.passes(90 * SECOND);
    world.releases(&db, &before);
    world.holds(13, &db);
    world.waits(2, &db);
    world.waits(1, &db);
    world.model.press(Key::Enter);
    assert_eq!(world.model.place().view, View::Name(db.clone()));
    let rows = world.shows(80, 24);
    let begins = ["held", "waits 1", "waits 2", "requested", "requested", "granted", "released"];
    for (row, begin) in rows[3..].iter().zip(begins) {
        assert!(row.starts_with(begin), "{}", rows.join("\n"));
    }
    assert!(rows[3].contains("make[13] stopped"), "{}", rows[3]);
    assert!(rows[4].contains("make[2]") && rows[5].contains("make[1]"), "{}", rows.join("\n"));
    assert!(rows[9].contains("1m30s"), "{}", rows[9]);
    let screen = rows.join("\n");
    assert!(screen.contains("kill -CONT 13   has it go on"), "{screen}");
    assert!(screen.contains("kill -KILL 13   ends it"), "{screen}");
    // What can be done about another one is shown when that is chosen.
    world.model.press(Key::Down);
    assert!(world.screen().contains("kill 2   ends it"), "{}", world.screen());
    world.model.press(Key::Escape);
    assert_eq!(world.model.place().view, View::Names);
}

#[test]
fn what_is_chosen_stays_chosen_wherever_it_goes() {
    let mut world = World::new();
    for (pid, text) in [(1, "a"), (2, "b"), (3, "c")] {
        world.holds(pid, &name(text));
        world.passes(SECOND);
    }
    world.model.press(Key::Down);
    world.waits(4, &name("c"));
    assert_eq!(world.names(), ["c", "a", "b"]);
    world.model.press(Key::Enter);
    assert_eq!(world.model.place().view, View::Name(name("b")));
    world.model.press(Key::Escape);
    for (key, expected) in [(Key::Home, "c"), (Key::PageDown, "b"), (Key::Up, "a"), (Key::End, "b")]
    {
        world.model.press(key);
        assert_eq!(world.model.chosen, Some(name(expected)), "{key:?}");
    }
}

#[test]
fn a_filter_shows_what_has_the_text_and_is_dropped_again() {
    let mut world = World::new();
    for text in ["Alpha", "beta", "gamma"] {
        world.holds(1, &name(text));
    }
    world.press("/ALPH");
    assert_eq!(world.names(), ["Alpha"]);
    assert!(world.screen().ends_with(&format!("{:80}", "/ALPH_")), "{}", world.screen());
    world.model.press(Key::Backspace);
    world.model.press(Key::Escape);
    assert_eq!(world.names().len(), 3);
    // While it is written, keys are text.
    world.press("/q");
    assert!(world.screen().contains("no name is like that"));
    world.model.press(Key::Backspace);
    world.press("et");
    world.model.press(Key::Enter);
    assert_eq!(world.names(), ["beta"]);
    world.model.press(Key::Escape);
    assert_eq!(world.names().len(), 3);
}

#[test]
fn buckets_are_shown_one_after_the_other_and_then_all() {
    let mut world = World::new();
    world.holds(1, &name("a"));
    world.holds(1, &LockName::new("other", "a".try_into().unwrap()));
    assert_eq!(world.table().len(), 2);
    for (key, bucket) in [("b", "default"), ("b", "other")] {
        world.press(key);
        assert_eq!(world.model.bucket.as_deref(), Some(bucket));
        assert_eq!(world.table().len(), 1);
    }
    world.press("b");
    assert_eq!((world.table().len(), &world.model.bucket), (2, &None));
}

#[test]
fn what_is_paused_stays_as_it_is_and_nothing_is_lost() {
    let mut world = World::new();
    world.holds(1, &name("a"));
    for key in ["p", " "] {
        world.press(key);
        let before = world.names();
        world.holds(2, &name("b"));
        world.holds(3, &name(key.trim()));
        world.passes(5 * SECOND);
        assert_eq!(world.names(), before);
        assert!(world.screen().contains("PAUSED"));
        world.press(key);
        assert!(world.names().len() > before.len() && !world.screen().contains("PAUSED"));
    }
}

#[test]
fn a_lock_is_stolen_only_where_that_is_allowed_and_from_whom_it_was_said() {
    let mut world = World::new();
    let db = name("db");
    world.press("S");
    assert!(world.screen().contains("choose a name"));
    let held = world.holds(1, &db);
    world.press("S");
    assert!(world.screen().contains("to steal, start it as 'navlock top --allow-steal'"));
    world.model.allow_steal = true;
    let steal = |entry: &Entry| Some(Wish::Steal(db.clone(), vec![(entry.id, entry.token?)]));
    for (keys, wish) in [("Sn", None), ("S ", None), ("Sq", None), ("Sy", steal(&held))] {
        assert_eq!(world.press(keys), wish, "{keys}");
    }
    world.passes(70 * SECOND);
    world.press("S");
    let screen = world.screen();
    assert!(screen.contains("\"db\" is held by make[1] for 1m10s."), "{screen}");
    assert!(screen.contains("told that the lock is lost"), "{screen}");
    // By the time of the answer it is another one's.
    world.releases(&db, &held);
    let mut held = world.holds(2, &db);
    assert_eq!(world.press("y"), None);
    assert!(world.screen().contains("somebody else holds it by now"), "{}", world.screen());
    world.press("S");
    assert!(world.screen().contains("held by make[2]"));
    assert_eq!(world.press("y"), steal(&held));
    // Who owns a name has it again by the same lock, and another token.
    world.press("S");
    held.token = Some(FencingToken::new(1000));
    world.happens(Change::Granted { name: db.clone(), entry: held.clone() });
    assert_eq!(world.press("y"), None);
    world.press("S");
    assert_eq!(world.press("y"), steal(&held));
}

#[test]
fn those_who_wait_for_each_other_are_shown_once_it_has_lasted() {
    let mut world = World::new();
    let (a, b) = (name("a"), name("b"));
    world.holds(1, &a);
    world.holds(2, &b);
    world.waits(1, &b);
    world.waits(2, &a);
    world.passes(Duration::ZERO);
    world.press("d");
    assert!(world.screen().contains("no deadlocks"));
    world.passes(2 * SECOND);
    world.passes(2 * SECOND);
    let screen = world.screen();
    assert!(screen.contains("possible deadlocks 1 (d)"), "{screen}");
    assert!(screen.contains("\npossible deadlock: these wait for each other"), "{screen}");
    assert!(screen.contains("  kill 2   ends make[2]"), "{screen}");
    assert!(screen.contains("  or kill 1   ends make[1]"), "{screen}");
    world.press("t");
    let screen = world.screen();
    assert!(screen.contains("circle: make["), "{screen}");
    assert!(screen.contains("└─ "), "{screen}");
}

#[test]
fn the_tree_shows_who_holds_up_whom() {
    let mut world = World::with(thirteen);
    world.holds(13, &name("db"));
    world.waits(2, &name("db"));
    world.waits(3, &name("db"));
    world.passes(SECOND);
    world.press("t");
    let rows = world.shows(80, 24);
    assert_eq!(rows[3].trim(), "make[13] holds db (exclusive) 1s, stopped; 2 wait");
    assert_eq!(rows[4].trim(), "├─ hard make[2] waits for db (exclusive) 1s");
    assert_eq!(rows[5].trim(), "└─ hard make[3] waits for db (exclusive) 1s");
    assert!(rows.join("\n").contains("kill -CONT 13"));
    world.model.press(Key::Enter);
    assert_eq!(world.model.place().view, View::Name(name("db")));
}

#[test]
fn clients_are_shown_with_how_much_each_has() {
    let mut world = World::new();
    world.holds(1, &name("a"));
    world.waits(2, &name("a"));
    world.press("c");
    let rows = world.shows(100, 24);
    let words = |row: &str| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&rows[3])[..2], ["1", "connected"]);
    assert_eq!(words(&rows[4])[..2], ["2", "connected"]);
    world.happens(Change::ClientWent { client: 1 });
    assert!(world.screen().contains("clients 1"));
}

#[test]
fn how_the_broker_is_is_said() {
    let mut world = World::new();
    world.holds(1, &name("a"));
    let mut overview = Box::new(world.overview.clone());
    overview.left_out = 7;
    world.hear(Heard::Anew { overview, missed: 17, namespace: None });
    assert!(world.screen().contains("missed 17  not shown 7"));
    assert_eq!(world.names(), ["a"]);
    world.hear(Heard::NoBroker);
    assert!(world.screen().contains("no broker is running: nobody holds anything"));
    world.hear(Heard::Failed("it is \u{1b}[31mstopped".to_owned()));
    assert!(world.screen().contains(r"it is \u{1b}[31mstopped"), "{}", world.screen());
}

/// Names that could do harm where they are shown.
const HOSTILE: [&str; 6] = [
    "\u{1b}[2J\u{1b}]0;x\u{7}",
    "a\u{202e}b\u{2066}c",
    "\r\n\t\u{8}\u{7f}\u{9b}31m",
    "日本語日本語日本語日本語日本語日本語日本語日本語",
    "👩‍👩‍👧‍👦🇩🇪e\u{301}\u{301}\u{301}",
    "",
];

#[test]
fn no_size_and_no_name_breaks_the_screen() {
    let mut world = World::with(thirteen);
    for (pid, text) in (11..).zip(HOSTILE) {
        let name = LockName::new(text, text.try_into().unwrap());
        world.comes(pid, text);
        world.holds(pid, &name);
        world.waits(10, &name);
    }
    let lone = ResourceName::from_utf16(&[0xD800, 0x61]).unwrap();
    world.holds(10, &LockName::new("default", lone));
    world.holds(10, &name(&"x\u{1b}".repeat(1 << 19)));
    world.passes(2 * SECOND);
    world.passes(2 * SECOND);
    world.model.allow_steal = true;
    let sizes = [0, 1, 2, 3, 4, 7, 10, 24, 40, 80, 300];
    for view in ["", "t", "c", "d", "n\n", "n?", "nS", "n/\u{1b}日"] {
        for key in view.chars() {
            world.model.press(if key == '\n' { Key::Enter } else { Key::Char(key) });
        }
        for (columns, rows) in
            sizes.into_iter().flat_map(|columns| sizes.map(|rows| (columns, rows)))
        {
            for row in world.shows(columns, rows) {
                let is_harmless = |char: char| char == ' ' || char.escape_debug().len() == 1;
                let has_harm =
                    row.chars().find(|char| !is_harmless(*char) && !"'\"\\".contains(*char));
                assert_eq!(has_harm, None, "{view:?} {columns}x{rows}: {row:?}");
                assert!(width(&row) <= usize::from(columns), "{view:?} {columns}x{rows}: {row:?}");
            }
            for key in [Key::Down, Key::PageDown, Key::End, Key::PageUp, Key::Home] {
                if view.len() < 2 {
                    world.model.press(key);
                }
            }
        }
        world.model.press(Key::Escape);
        world.model.press(Key::Escape);
    }
}

#[test]
fn at_eighty_and_at_forty_columns_what_matters_most_is_seen() {
    let mut world = World::new();
    world.holds(4711, &name("nightly-build"));
    world.passes(125 * SECOND);
    world.waits(4712, &name("nightly-build"));
    world.passes(65 * SECOND);
    let wide = world.shows(80, 24);
    assert_eq!(
        wide[2].split_whitespace().collect::<Vec<_>>(),
        ["NAME", "MODE", "HOLDER", "HELD", "QUEUE", "WAIT", "RATE", "MEAN", "P99"]
    );
    for seen in ["nightly-build", "make[4711]", "3m10s", "1m05s"] {
        assert!(wide[3].contains(seen), "{}", wide[3]);
    }
    let narrow = world.shows(40, 10);
    for seen in ["nightly-build", "3m10s", "1m05s"] {
        assert!(narrow[3].contains(seen), "{}", narrow.join("\n"));
    }
    assert!(narrow[9].starts_with("q quit"), "{}", narrow.join("\n"));
}

#[test]
fn without_colours_words_and_signs_say_it_all() {
    let mut world = World::new();
    world.holds(1, &name("a"));
    world.waits(2, &name("a"));
    for colours in [true, false] {
        world.model.colours = colours;
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| view::draw(&world.model, frame.buffer_mut())).unwrap();
        let cells = &terminal.backend().buffer().content;
        let is_plain = cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset);
        assert_eq!(is_plain, !colours);
        assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
    }
}

/// How often it was asked how a process is: once or a few times for each row that is made.
static ASKED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn of_ten_thousand_names_only_those_are_made_that_are_seen() {
    fn asked(_: u32) -> Option<Seen> {
        ASKED.fetch_add(1, Ordering::Relaxed);
        None
    }
    let mut world = World::with(asked);
    world.comes(1, "make");
    let granted = (0..10_000).map(|number| {
        let entry = Entry::new(LockId { client_id: client(1), serial: number }, Mode::Exclusive);
        Change::Granted { name: name(&format!("name-{number}")), entry }
    });
    let waiting = (0..10_000).map(|number| {
        let id = LockId { client_id: client(1), serial: 10_000 + number };
        Change::Requested { name: name("name-7"), entry: Entry::new(id, Mode::Exclusive) }
    });
    let at = world.now;
    let events = granted.chain(waiting).map(|change| Event { at, change });
    world.hear(Heard::Events(events.collect()));
    for view in ["n", "n\n", "t"] {
        for key in view.chars() {
            world.model.press(if key == '\n' { Key::Enter } else { Key::Char(key) });
        }
        ASKED.store(0, Ordering::Relaxed);
        world.shows(80, 24);
        let asked = ASKED.load(Ordering::Relaxed);
        assert!(asked < 200, "{view:?} {asked}");
    }
}

#[test]
fn what_is_remembered_is_bounded_and_forgotten_in_time() {
    let mut world = World::new();
    let kept = name("kept");
    world.holds(1, &kept);
    world.comes(2, "sh");
    for number in 0..100_000 {
        if number % 1000 == 0 {
            world.now += Duration::from_millis(1);
            world.model.tick(world.now);
        }
        let name = name(&format!("{number}"));
        let entry = Entry::new(LockId { client_id: client(2), serial: number }, Mode::Exclusive);
        let events = [
            Change::Granted { name: name.clone(), entry: entry.clone() },
            Change::Released { name, id: entry.id },
        ];
        let events = events.map(|change| Event { at: world.now, change });
        world.model.hear(Heard::Events(events.into()));
    }
    let known = world.model.data().known.len();
    assert!((20_000..50_000).contains(&known), "{known}");
    assert!(world.model.data().known.contains_key(&name("99999")));
    for _ in 0..100 {
        let entry = world.waits(1, &kept);
        world.happens(Change::Aborted { name: kept.clone(), id: entry.id });
    }
    assert_eq!(world.model.data().known[&kept].past.len(), 20);
    world.passes(61 * SECOND);
    assert_eq!(world.model.data().known.keys().collect::<Vec<_>>(), [&kept]);
}

#[test]
fn of_names_as_long_as_any_may_be_no_more_is_remembered_than_there_is_room_for() {
    let mut world = World::new();
    let kept = name("kept");
    world.holds(1, &kept);
    for number in 0..60 {
        world.passes(Duration::from_millis(1));
        let name = name(&format!("{number}{}", "x".repeat(1 << 19)));
        let entry = world.holds(2, &name);
        world.releases(&name, &entry);
    }
    let known = &world.model.data().known;
    let bytes: usize = known.keys().map(|name| name.name.as_bytes().len()).sum();
    assert!((2 << 20..=16 << 20).contains(&bytes), "{bytes}");
    assert!(known.contains_key(&kept));
}

#[test]
fn help_names_the_keys_and_any_key_ends_it() {
    let mut world = World::new();
    world.press("?");
    for said in ["q         quit", "S         steal the lock", "b         the next bucket"] {
        assert!(world.screen().contains(said), "{}", world.screen());
    }
    world.press("x");
    assert!(!world.screen().contains("steal the lock"));
    for (key, wish) in [
        (Key::Interrupt, Wish::Interrupt),
        (Key::Suspend, Wish::Suspend),
        (Key::Char('q'), Wish::Quit),
    ] {
        world.press("?");
        assert_eq!(world.model.press(key), Some(wish));
        world.press("x");
    }
}
