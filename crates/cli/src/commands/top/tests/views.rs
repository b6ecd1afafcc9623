//! What is shown.

use std::time::Duration;

use navlock::look::Change;
use navlock_platform::shell::{line_to_continue, line_to_end};
use ratatui_core::{
    backend::TestBackend,
    style::{Color, Modifier},
    terminal::Terminal,
};

use super::{
    super::{keys::Key, model::View, view},
    SECOND, World, name, thirteen,
};
use crate::picture::Broker;

#[test]
fn the_longest_wait_comes_first_and_then_the_longest_hold() {
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
fn rates_and_waits_are_counted_from_what_happens() {
    let mut world = World::new();
    let db = name("db");
    let mut held = world.holds(1, &db);
    for _ in 0..9 {
        let next = world.waits(1, &db);
        world.passes(Duration::from_millis(100));
        world.releases(&db, &held);
        world.is_granted(&db, &next);
        // An event that is told twice is not counted twice.
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
    let begins = ["held", "waits 1", "waits 2", "released"];
    for (row, begin) in rows[3..].iter().zip(begins) {
        assert!(row.starts_with(begin), "{}", rows.join("\n"));
    }
    assert!(rows[3].contains("make[13] stopped"), "{}", rows[3]);
    assert!(rows[4].contains("make[2]") && rows[5].contains("make[1]"), "{}", rows.join("\n"));
    assert!(rows[6].contains("1m30s"), "{}", rows[6]);
    let screen = rows.join("\n");
    if let Some(line) = line_to_continue(&[13]) {
        assert!(screen.contains(&format!("{line}   has it go on")), "{screen}");
    }
    assert!(screen.contains(&format!("{}   ends it", line_to_end(13, true))), "{screen}");
    // The remedies of another waiter are shown when that one is chosen.
    world.model.press(Key::Down);
    let ends = format!("{}   ends it", line_to_end(2, false));
    assert!(world.screen().contains(&ends), "{}", world.screen());
    world.model.press(Key::Esc);
    assert_eq!(world.model.place().view, View::Names);
}

#[test]
fn agents_that_wait_for_each_other_are_shown_once_the_cycle_has_lasted() {
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
    let [first, second] = [2, 1].map(|pid| line_to_end(pid, false));
    assert!(screen.contains(&format!("  {first}   ends make[2]")), "{screen}");
    assert!(screen.contains(&format!("  or {second}   ends make[1]")), "{screen}");
    world.press("t");
    let screen = world.screen();
    assert!(screen.contains("cycle: make["), "{screen}");
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
    let line = line_to_continue(&[13]).unwrap_or_else(|| line_to_end(13, true));
    assert!(rows.join("\n").contains(&line));
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
    let mut overview = world.overview.clone();
    overview.left_out = 7;
    world.anew(overview, 17);
    assert!(world.screen().contains("missed 17  not shown 7"));
    assert_eq!(world.names(), ["a"]);
    world.model.live.without_broker();
    assert!(world.screen().contains("no broker is running: nobody holds anything"));
    world.model.live.broker_is(Broker::Failed("it is \u{1b}[31mstopped".to_owned()));
    assert!(world.screen().contains(r"it is \u{1b}[31mstopped"), "{}", world.screen());
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
