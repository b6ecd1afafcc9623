//! Finds cycles in a graph: so many that no cycle is left once one request of each is taken away.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;

use super::graph::{Graph, Index, Why};
use crate::look::{LockName, Patience};

/// A bound for the whole search: on average, it looks at each node of the graph at most this many times. So
/// the time is proportional to the graph. Cycles in different components are all found.
const MOST: usize = 64;

/// A way through the graph that ends where it begins: each node, and why it waits for the next.
pub(super) type Cycle = Vec<(Index, Why)>;

/// Finds cycles. Each begins with the last of its requests that give way or, if none does, with its youngest. This
/// request is taken out of the graph before the next cycle is searched. So no cycle of this graph is left without
/// these requests, unless there are too many cycles. Without a request that is not the last of its queue the graph
/// would be another one: that is for the next look.
///
/// The cycles consist of known steps alone, and contain no request that may give up by itself. If
/// `with_possible` is set, they may also contain such requests, and steps that are only possible.
/// The nodes in `without` count as removed.
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
            let order = |node: &&Index| {
                let entry = graph.at(**node).map(|at| at.entry);
                entry.map(|entry| (entry.patience == Patience::GivesWay, entry.made()))
            };
            let Some(first) = requests.max_by_key(order).copied() else { continue };
            let Some(left) = looks.checked_sub(component.len()) else { return found };
            looks = left;
            found.extend(search.shortest(first));
            search.part[first as usize] = Search::GONE;
            component.retain(|node| *node != first);
            todo.push(component);
        }
    }
    found
}

/// For each node in a component that contains a cycle, the number of the component.
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

/// The nodes in between that a search has passed, each with the name whose requests the search has
/// left out there.
type Between<'a> = HashMap<Index, Option<&'a LockName>, RandomState>;

struct Search<'a, 'g> {
    graph: &'g Graph<'a>,
    with_possible: bool,
    /// The part of the graph of each node. Edges between different parts do not count.
    part: Vec<u32>,
    /// The number of the next part.
    next: u32,
    /// For Tarjan's algorithm: when each node was found, and when the earliest node was found to
    /// which it leads back.
    found: Vec<(u32, u32)>,
    /// The node from which a search came to each node, and the edge's reason.
    from: Vec<Option<(Index, Why)>>,
}

impl<'a, 'g> Search<'a, 'g> {
    /// The part of nodes that are removed.
    const GONE: u32 = u32::MAX;
    const UNSEEN: (u32, u32) = (u32::MAX, u32::MAX);

    fn new(graph: &'g Graph<'a>, with_possible: bool) -> Self {
        let nodes = graph.nodes.len();
        let (part, found, from) = (vec![0; nodes], vec![Self::UNSEEN; nodes], vec![None; nodes]);
        let mut search = Self { graph, with_possible, part, next: 1, found, from };
        if !with_possible {
            let may_give_up = |node: &Index| {
                graph
                    .at(*node)
                    .is_some_and(|at| !at.is_held && at.entry.patience == Patience::MayGiveUp)
            };
            for node in graph.indices().filter(may_give_up) {
                search.part[node as usize] = Self::GONE;
            }
        }
        search
    }

    /// The nodes that are not removed.
    fn nodes(&self) -> Vec<Index> {
        let is_there = |node: &Index| self.part[*node as usize] != Self::GONE;
        self.graph.indices().filter(is_there).collect()
    }

    /// Whether this edge from a node counts.
    fn leads(&self, node: Index, (to, why): (Index, Why)) -> bool {
        self.part[node as usize] == self.part[to as usize] && (self.with_possible || why.is_known())
    }

    /// The strongly connected components of one part that have a cycle. Each becomes a part of its own.
    fn components(&mut self, nodes: &[Index]) -> Vec<Vec<Index>> {
        let mut components = Vec::new();
        for node in nodes {
            self.found[*node as usize] = Self::UNSEEN;
        }
        let mut count = 0;
        // The nodes that are found, and in no component yet.
        let mut open: Vec<Index> = Vec::new();
        // The way to the current node: each node with the number of its edges that were followed.
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
                    // Nodes that are in a component already are in another part.
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

    /// Notes that the node leads back to a node that was found at `earliest`.
    fn reaches(&mut self, node: Index, earliest: u32) {
        let known = &mut self.found[node as usize].1;
        *known = earliest.min(*known);
    }

    /// The shortest way from a request back to itself, within its part.
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

    /// The locks and requests of its part for which a node waits, without those that the search has
    /// already reached through a node in between.
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
            // An agent that waits for its own lock is usual: two of its tasks take turns. So from a
            // lock the search leaves out the requests of the lock's own name. It reaches these
            // requests from a lock of another name.
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
