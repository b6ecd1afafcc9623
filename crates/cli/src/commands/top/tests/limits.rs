//! Names that could do harm, very many names, very long ones, and screens of any size.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use navlock::{
    Mode, ResourceName,
    look::{Change, Entry, Event, LockId, LockName},
};
use navlock_platform::process::Seen;

use super::{super::keys::Key, SECOND, World, client, name, thirteen};
use crate::{picture::past::MOST, text::width};

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
        world.model.press(Key::Esc);
        world.model.press(Key::Esc);
    }
}

/// How often the state of a process was asked for: once or a few times for each row that is made.
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
    world.tell(&events.collect::<Vec<_>>());
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
fn past_names_are_bounded_in_number_and_forgotten_in_time() {
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
        world.model.live.happened(&events);
    }
    assert!((1000..=MOST + 1).contains(&world.model.data().names().count()));
    let last = name("99999");
    assert!(world.model.data().names().any(|name| *name == last));
    world.passes(61 * SECOND);
    assert_eq!(world.model.data().names().collect::<Vec<_>>(), [&kept]);
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
    let names: Vec<_> = world.model.data().names().collect();
    let bytes: usize = names.iter().map(|name| name.name.as_bytes().len()).sum();
    assert!((2 << 20..=16 << 20).contains(&bytes), "{bytes}");
    assert!(names.contains(&&kept));
}
