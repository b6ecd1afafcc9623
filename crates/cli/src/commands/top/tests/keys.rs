//! What keys do.

use navlock::{
    FencingToken,
    look::{Change, Entry, LockName},
};

use super::{
    super::{
        keys::{INTERRUPT, Key, SUSPEND},
        model::{View, Wish},
    },
    SECOND, World, name,
};

#[test]
fn the_table_can_be_sorted_by_each_column() {
    let mut world = World::new();
    let (a, b) = (name("a"), name("b"));
    let held = world.holds(1, &a);
    world.holds(2, &b);
    let waits = world.waits(3, &a);
    world.passes(SECOND);
    world.releases(&a, &held);
    world.is_granted(&a, &waits);
    world.waits(4, &b);
    // Of the two, a was held first and has had more events; b is waited for.
    for first in ["b", "b", "b", "a", "a", "a", "a"] {
        assert_eq!(world.names()[0], first, "{}", world.screen());
        world.press("s");
    }
    assert_eq!(world.names()[0], "b");
}

#[test]
fn a_chosen_name_stays_chosen_wherever_its_row_goes() {
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
    world.model.press(Key::Esc);
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
    world.model.press(Key::Esc);
    assert_eq!(world.names().len(), 3);
    // While a filter is written, keys are text.
    world.press("/q");
    assert!(world.screen().contains("no name is like that"));
    world.model.press(Key::Backspace);
    world.press("et");
    world.model.press(Key::Enter);
    assert_eq!(world.names(), ["beta"]);
    world.model.press(Key::Esc);
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
fn a_paused_table_stays_as_it_is_and_loses_nothing() {
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
    // By the time of the answer another client holds the lock.
    world.releases(&db, &held);
    let mut held = world.holds(2, &db);
    assert_eq!(world.press("y"), None);
    assert!(world.screen().contains("somebody else holds it by now"), "{}", world.screen());
    world.press("S");
    assert!(world.screen().contains("held by make[2]"));
    assert_eq!(world.press("y"), steal(&held));
    // The owner of the name holds it again, by the same lock and with another token.
    world.press("S");
    held.token = Some(FencingToken::new(1000));
    world.happens(Change::Granted { name: db.clone(), entry: held.clone() });
    assert_eq!(world.press("y"), None);
    world.press("S");
    assert_eq!(world.press("y"), steal(&held));
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
    for (key, wish) in
        [(INTERRUPT, Wish::Interrupt), (SUSPEND, Wish::Suspend), (Key::Char('q'), Wish::Quit)]
    {
        world.press("?");
        assert_eq!(world.model.press(key), Some(wish));
        world.press("x");
    }
}
