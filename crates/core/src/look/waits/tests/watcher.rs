//! Which deadlocks are confirmed, because they have lasted.

use std::time::Duration;

use navlock_engine::Mode::Exclusive;

use super::{Deadlock, Example, Watcher};

#[test]
fn a_deadlock_is_confirmed_once_when_it_has_lasted() {
    let mut example = Example::new();
    let second = Duration::from_secs(1);
    let mut watcher = Watcher::new(second);
    let (a, b) = (example.held(1, "a", Exclusive), example.held(2, "b", Exclusive));
    example.waits(1, "b", Exclusive, Some(a));
    let last = example.waits(2, "a", Exclusive, Some(b));
    let now = example.begin;
    assert_eq!(watcher.look(&example.overview, now), []);
    assert_eq!(watcher.next(), Some(now + second));
    assert_eq!(watcher.look(&example.overview, now + second / 2), []);
    // Others come, which changes nothing of it.
    example.waits(3, "a", Exclusive, None);
    let confirmed = watcher.look(&example.overview, now + second);
    assert_eq!(confirmed.iter().map(Deadlock::gives_way).collect::<Vec<_>>(), [last]);
    assert_eq!(watcher.gives_way(last), Some(&confirmed[0]));
    assert_eq!(watcher.look(&example.overview, now + 2 * second), []);
    assert_eq!((watcher.next(), watcher.confirmed().count()), (None, 1));
    example.ends("a", last);
    assert_eq!(watcher.look(&example.overview, now + 3 * second), []);
    assert_eq!((watcher.gives_way(last), watcher.confirmed().count()), (None, 0));
}

#[test]
fn a_deadlock_that_is_put_off_has_to_last_once_more() {
    let mut example = Example::new();
    let second = Duration::from_secs(1);
    let mut watcher = Watcher::new(second);
    let (a, b) = (example.held(1, "a", Exclusive), example.held(2, "b", Exclusive));
    example.waits(1, "b", Exclusive, Some(a));
    let last = example.waits(2, "a", Exclusive, Some(b));
    let now = example.begin;
    assert_eq!(watcher.look(&example.overview, now), []);
    assert_eq!(watcher.look(&example.overview, now + second).len(), 1);
    watcher.put_off(last);
    assert_eq!(watcher.confirmed().count(), 0);
    assert_eq!(watcher.look(&example.overview, now + 2 * second), []);
    assert_eq!(watcher.next(), Some(now + 3 * second));
    assert_eq!(watcher.look(&example.overview, now + 3 * second).len(), 1);
}

#[test]
fn a_deadlock_that_another_one_has_followed_is_confirmed_anew() {
    let mut example = Example::new();
    let second = Duration::from_secs(1);
    let mut watcher = Watcher::new(second);
    let (a, b) = (example.held(1, "a", Exclusive), example.held(2, "b", Exclusive));
    example.waits(1, "b", Exclusive, Some(a));
    let first = example.waits(2, "a", Exclusive, Some(b));
    let now = example.begin;
    assert_eq!(watcher.look(&example.overview, now), []);
    example.ends("a", first);
    let second_one = example.waits(2, "a", Exclusive, Some(b));
    assert_eq!(watcher.look(&example.overview, now + second), []);
    let confirmed = watcher.look(&example.overview, now + 2 * second);
    assert_eq!(confirmed.iter().map(Deadlock::gives_way).collect::<Vec<_>>(), [second_one]);
}
