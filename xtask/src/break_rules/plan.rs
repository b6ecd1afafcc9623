//! Which copy tries which entry: entries that build the same go to the same copy.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::rules::{Rule, Target};

/// The entries that nobody has taken yet.
pub(super) struct Plan {
    /// By what the entries build; in a group, entries of one file are neighbours.
    groups: BTreeMap<Target, Group>,
}

struct Group {
    rules: VecDeque<Rule>,
    /// A copy builds it, or has built it.
    is_begun: bool,
}

impl Plan {
    pub(super) fn new(mut rules: Vec<Rule>) -> Self {
        rules.sort_by(|a, b| a.file.cmp(&b.file));
        let mut groups = BTreeMap::new();
        for rule in rules {
            let new = || Group { rules: VecDeque::new(), is_begun: false };
            groups.entry(rule.target()).or_insert_with(new).rules.push_back(rule);
        }
        Self { groups }
    }

    /// The next entry for a copy that built `last` most recently: one more entry of the same group; else the
    /// first of the largest group that no copy has begun; else one from the end of the largest group, if that
    /// group has more than one entry left.
    pub(super) fn next(&mut self, last: Option<&Target>) -> Option<Rule> {
        if let Some(rule) = last.and_then(|last| self.groups.get_mut(last)?.rules.pop_front()) {
            return Some(rule);
        }
        let groups = self.groups.values_mut();
        let group = groups.max_by_key(|group| (!group.is_begun, group.rules.len()))?;
        if group.is_begun {
            // A copy that has built this group tries its last entry sooner than this copy could build the
            // group.
            return if group.rules.len() > 1 { group.rules.pop_back() } else { None };
        }
        group.is_begun = true;
        group.rules.pop_front()
    }

    /// The tests of this entry and of those that are left of its group.
    pub(super) fn tests_of(&self, target: &Target, rule: &Rule) -> BTreeSet<String> {
        let left = self.groups.get(target).into_iter().flat_map(|group| &group.rules);
        left.chain([rule]).map(|rule| rule.test.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::rules::tests::rule, *};

    fn of(id: &str, test: &str) -> Rule {
        Rule { test: test.to_owned(), ..rule(id) }
    }

    /// The ids that each of so many copies tries, if the copies take turns.
    fn shared_by(copies: usize, rules: &[Rule]) -> Vec<Vec<String>> {
        let mut plan = Plan::new(rules.to_vec());
        let mut done = vec![(None, Vec::new()); copies];
        let mut is_over = false;
        while !is_over {
            is_over = true;
            for (last, ids) in &mut done {
                if let Some(rule) = plan.next(last.as_ref()) {
                    *last = Some(rule.target());
                    ids.push(rule.id);
                    is_over = false;
                }
            }
        }
        done.into_iter().map(|(_, ids)| ids).collect()
    }

    #[test]
    fn each_copy_stays_with_what_it_has_built() {
        let rules = [
            of("a1", "-p a --lib x"),
            of("b1", "-p b --lib x"),
            of("a2", "-p a --lib y"),
            of("b2", "-p b --lib y"),
        ];
        assert_eq!(shared_by(2, &rules), [["b1", "b2"], ["a1", "a2"]]);
        assert_eq!(shared_by(1, &rules), [["b1", "b2", "a1", "a2"]]);
    }

    #[test]
    fn a_copy_with_nothing_left_helps_with_the_largest_group() {
        let rules: Vec<_> = ["1", "2", "3", "4", "5"].map(|id| of(id, "-p a --lib x")).into();
        let shares = shared_by(2, &rules);
        assert_eq!(shares.concat().len(), 5, "nothing is lost, nothing is done twice: {shares:?}");
        assert!(shares.iter().all(|share| !share.is_empty()), "{shares:?}");
    }

    #[test]
    fn the_tests_of_a_group_are_known_before_it_begins() {
        let mut plan = Plan::new(vec![of("a", "-p a --lib x"), of("b", "-p a --lib y")]);
        let first = plan.next(None).unwrap();
        let tests = plan.tests_of(&first.target(), &first);
        assert_eq!(Vec::from_iter(tests), ["-p a --lib x", "-p a --lib y"]);
    }
}
