//! Cycles in a graph: as many as have to be broken until there are none.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;

use super::graph::{Graph, Index, Why};
use crate::look::LockName;

/// How often each node is looked at, at most and as if there was one component of all: so the time is in
/// proportion to the graph, and circles that have nothing to do with each other are all found.
const MOST: usize = 64;

/// A way through the graph that ends where it begins: each node, and why it waits for the next.
pub(super) type Cycle = Vec<(Index, Why)>;

/// Cycles, each of which begins with the youngest request that is in it. That request is taken out of
/// the graph before the next cycle is looked for: so without all of these there is none left, if there
/// are not too many.
///
/// Of known steps between those that do not give up by themselves; or, if `with_possible`, of others as
/// well. The nodes in `without` are not there.
pub(super) fn cycles(graph: &Graph<'_>, without: &[Index], with_possible: bool) -> Vec<Cycle> {
    let mut search = Search::new(graph, with_possible);
    for node in without {
        search.part[*node as usize] = Search::GONE;
    }
    let mut found = Vec::new();
    let mut looks = MOST * graph.indices().len();
    let mut todo: Vec<Vec<Index>> = vec![search.nodes()];
    while let Some(nodes) = todo.pop() {
        for mut component in search.components(&nodes) {
            let requests = component.iter().filter(|node| graph.is_request(**node));
            let age = |node: &&Index| {
                graph.at(**node).map(|at| (at.entry.order, at.entry.since, at.entry.id))
            };
            let Some(youngest) = requests.max_by_key(age).copied() else { continue };
            let Some(left) = looks.checked_sub(component.len()) else { return found };
            looks = left;
            found.extend(search.shortest(youngest));
            search.part[youngest as usize] = Search::GONE;
            component.retain(|node| *node != youngest);
            todo.push(component);
        }
    }
    found
}

/// Which nodes of the graph are in a component that contains a cycle: the same number for those of the
/// same component.
pub(super) fn components(graph: &Graph<'_>, with_possible: bool) -> Vec<Option<Index>> {
    let mut search = Search::new(graph, with_possible);
    let mut of = vec![None; graph.nodes.len()];
    let all = search.nodes();
    for (number, component) in (0..).zip(search.components(&all)) {
        for node in component {
            of[node as usize] = Some(number);
        }
    }
    of
}

/// The nodes between others by which a search has gone, each with the name that it has left out.
type Between<'a> = HashMap<Index, Option<&'a LockName>, RandomState>;

struct Search<'a, 'g> {
    graph: &'g Graph<'a>,
    with_possible: bool,
    /// In which part of the graph each node is: edges between parts are not there.
    part: Vec<u32>,
    /// The number of the next part.
    next: u32,
    /// Of Tarjan's algorithm: when each node was found, and the earliest that it leads back to.
    found: Vec<(u32, u32)>,
    /// Where a search was before it came to a node, and why.
    from: Vec<Option<(Index, Why)>>,
}

impl<'a, 'g> Search<'a, 'g> {
    /// The part of what is not there.
    const GONE: u32 = u32::MAX;
    const UNSEEN: (u32, u32) = (u32::MAX, u32::MAX);

    fn new(graph: &'g Graph<'a>, with_possible: bool) -> Self {
        let nodes = graph.nodes.len();
        let (part, found, from) = (vec![0; nodes], vec![Self::UNSEEN; nodes], vec![None; nodes]);
        let mut search = Self { graph, with_possible, part, next: 1, found, from };
        if !with_possible {
            let may_give_up = |node: &Index| {
                graph.at(*node).is_some_and(|at| !at.is_held && at.entry.may_give_up)
            };
            for node in graph.indices().filter(may_give_up) {
                search.part[node as usize] = Self::GONE;
            }
        }
        search
    }

    /// Those that are there.
    fn nodes(&self) -> Vec<Index> {
        let is_there = |node: &Index| self.part[*node as usize] != Self::GONE;
        self.graph.indices().filter(is_there).collect()
    }

    /// Whether there is this edge from a node.
    fn leads(&self, node: Index, (to, why): (Index, Why)) -> bool {
        self.part[node as usize] == self.part[to as usize] && (self.with_possible || why.is_known())
    }

    /// The strongly connected components of one part that have a cycle, each a part of its own from now
    /// on.
    fn components(&mut self, nodes: &[Index]) -> Vec<Vec<Index>> {
        let mut components = Vec::new();
        for node in nodes {
            self.found[*node as usize] = Self::UNSEEN;
        }
        let mut count = 0;
        // Found, and in no component yet.
        let mut open: Vec<Index> = Vec::new();
        // The way to where the search is, each with how many of its edges were followed.
        let mut way: Vec<(Index, usize)> = Vec::new();
        for root in nodes {
            if self.found[*root as usize] != Self::UNSEEN {
                continue;
            }
            way.push((*root, 0));
            while let Some((node, followed)) = way.last_mut() {
                let node = *node;
                if *followed == 0 {
                    self.found[node as usize] = (count, count);
                    count += 1;
                    open.push(node);
                }
                let graph = self.graph;
                if let Some(edge) = graph.waits.of(node).get(*followed) {
                    *followed += 1;
                    // What is in a component by now is in another part.
                    if self.leads(node, *edge) {
                        match self.found[edge.0 as usize] {
                            Self::UNSEEN => way.push((edge.0, 0)),
                            (its, _) => self.reaches(node, its),
                        }
                    }
                    continue;
                }
                way.pop();
                let (its, earliest) = self.found[node as usize];
                if let Some((before, _)) = way.last() {
                    self.reaches(*before, earliest);
                }
                if its == earliest {
                    let start = open.iter().rposition(|other| *other == node).unwrap_or(0);
                    let component = open.split_off(start);
                    for node in &component {
                        self.part[*node as usize] = self.next;
                    }
                    self.next += 1;
                    // There is no edge from a node to itself.
                    if component.len() > 1 {
                        components.push(component);
                    }
                }
            }
        }
        components
    }

    /// The node leads back to what was found so early.
    fn reaches(&mut self, node: Index, earliest: u32) {
        let known = &mut self.found[node as usize].1;
        *known = earliest.min(*known);
    }

    /// The shortest way from a request back to it, in its part.
    fn shortest(&mut self, start: Index) -> Option<Cycle> {
        let mut seen = vec![start];
        let mut queue = VecDeque::from([start]);
        let mut between = HashMap::default();
        let mut last = None;
        'search: while let Some(node) = queue.pop_front() {
            for (to, why) in self.steps(node, &mut between) {
                if to == start {
                    last = Some((node, why));
                    break 'search;
                }
                if self.from[to as usize].is_none() {
                    self.from[to as usize] = Some((node, why));
                    seen.push(to);
                    queue.push_back(to);
                }
            }
        }
        let mut cycle = Vec::new();
        while let Some((node, why)) = last {
            cycle.push((node, why));
            last = self.from[node as usize];
        }
        for node in seen {
            self.from[node as usize] = None;
        }
        cycle.reverse();
        (!cycle.is_empty()).then_some(cycle)
    }

    /// The locks and requests that one waits for, in its part, as far as the search has not gone there
    /// by way of a node that stands between.
    fn steps(&self, node: Index, between: &mut Between<'a>) -> Vec<(Index, Why)> {
        let mut steps = Vec::new();
        let name = self.graph.at(node).map(|at| at.name);
        for edge in self.graph.waits.of(node) {
            let (to, why) = *edge;
            if !self.leads(node, *edge) {
                continue;
            }
            if self.graph.at(to).is_some() {
                steps.push((to, why));
                continue;
            }
            // An agent that waits for what it holds itself is two of its tasks, as is usual: so what was
            // not gone to for that is gone to from the lock of another name.
            let left_out = match (why, between.get(&to)) {
                (Why::SameAgent, None) => name,
                (Why::SameAgent, Some(left_out)) if left_out.is_some() && *left_out != name => None,
                (_, None) => None,
                _ => continue,
            };
            between.insert(to, left_out);
            let behind = self.graph.waits.of(to).iter();
            let behind = behind.filter(|behind| self.leads(to, **behind));
            steps.extend(behind.filter(|(behind, _)| {
                left_out.is_none() || self.graph.at(*behind).map(|at| at.name) != left_out
            }));
        }
        steps
    }
}
