//! How long the requests of a cycle wait, and which of them fails.

use super::*;

#[test]
fn of_those_who_would_give_way_in_a_deadlock_the_last_one_does_and_if_there_are_none_the_last_of_all()
 {
    let mut example = Example::new();
    let held = [1, 2, 3].map(|agent| example.held(agent, &agent.to_string(), Exclusive));
    let [one, two, three] = [(1, "2"), (2, "3"), (3, "1")].map(|(agent, name)| {
        (name, example.waits(agent, name, Exclusive, Some(held[agent as usize - 1])))
    });
    let gives_way = |example: &Example| deadlocks(&example.overview)[0].gives_way();
    assert_eq!(gives_way(&example), three.1);
    for (name, id) in [one, two] {
        example.put_patience(name, id, Patience::GivesWay);
        assert_eq!(gives_way(&example), id);
    }
}

#[test]
fn who_gives_way_is_found_behind_a_deadlock_in_which_nobody_does() {
    let mut example = Example::new();
    let [one, two] = [1, 2].map(|agent| example.held(agent, "x", Shared));
    let y = example.held(3, "y", Exclusive);
    let ids = [(1, one), (2, two)].map(|(agent, x)| example.waits(agent, "y", Shared, Some(x)));
    example.waits(3, "x", Exclusive, Some(y));
    for id in ids {
        example.put_patience("y", id, Patience::GivesWay);
        assert!(deadlocks(&example.overview).iter().any(|deadlock| deadlock.gives_way() == id));
    }
}

#[test]
fn nobody_waits_for_ever_for_what_may_give_up() {
    let mut example = Example::new();
    let (a, b) = (example.held(1, "a", Shared), example.held(2, "b", Exclusive));
    let gives_up = example.waits(3, "a", Exclusive, None);
    example.waits(2, "a", Shared, Some(b));
    example.waits(1, "b", Exclusive, Some(a));
    assert_eq!(example.told(), certain("b B a a A"));
    example.put_patience("a", gives_up, Patience::MayGiveUp);
    assert_eq!(example.told(), [("b B a a A".to_owned(), false)]);
    // A request that may give up does not matter if it is behind others that wait for ever.
    let mut example = Example::new();
    let (a, b) = (example.held(1, "a", Shared), example.held(2, "b", Exclusive));
    example.waits(4, "a", Exclusive, None);
    let gives_up = example.waits(3, "a", Exclusive, None);
    example.put_patience("a", gives_up, Patience::MayGiveUp);
    example.waits(2, "a", Shared, Some(b));
    example.waits(1, "b", Exclusive, Some(a));
    assert_eq!(example.told(), certain("b B a a A"));
}
