//! The tree of waits: below each holder, the requests that wait for it.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use navlock_engine::Mode;

use super::{
    Why,
    cycles::components,
    graph::{Graph, Index, NamedEntry},
    graph_builder,
};
use crate::look::{Entry, LockName, Overview};

/// A lock or request that blocks others, with all that wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Root<'a> {
    /// How many requests wait for it, directly or not.
    pub blocks: usize,
    /// Whether the root is part of a cycle, whose members wait for each other;
    /// [`deadlocks`](super::deadlocks) tells whether that is certain. A root that is not part of a cycle
    /// waits for nothing: when it ends, a waiter goes on.
    pub is_cycle: bool,
    /// The root itself, and then all that wait for it, each below one of those for which it waits.
    pub rows: Vec<Row<'a>>,
}

/// A lock or a request in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row<'a> {
    /// How far below the root: 0 is the root itself.
    pub depth: usize,
    /// Why it waits for the lock or request below which it stands; `None` for the root.
    pub why: Option<Why>,
    /// Its name.
    pub name: &'a LockName,
    /// The lock or request.
    pub entry: &'a Entry,
    /// Whether it is a lock.
    pub is_held: bool,
    /// How many rows are below it.
    pub below: usize,
}

/// All waiters, each below one of those for which it waits. First come the trees whose root waits for
/// nothing. Of these, the trees that block the most come first, and among equals the one whose root is
/// held longest. Then come the cycles.
///
/// A request stands below a lock that conflicts with it, or else below a request before it in its
/// queue. A lock stands below a request that was made inside it. If the requests of the lock's agent
/// do not say what they are inside of, the lock stands below one of these requests. A lock of another
/// machine stands below a request that was made inside a lock of the same agent. Locks for which
/// nobody waits are not shown.
///
/// ```
/// # use std::future::IntoFuture;
/// # use navlock::{Error, UserAgent, blocking::block_on_timeout, look::LookOptions};
/// # let user_agent = UserAgent::new();
/// # let locks = user_agent.lock_manager("app");
/// # let mut looker = user_agent.look(LookOptions::default().once()).expect("in this process");
/// # let account = locks.lock("account").blocking()?;
/// # let mut again = locks.lock("account").into_future();
/// # assert!(block_on_timeout(&mut again, std::time::Duration::ZERO).is_none());
/// use navlock::look::tree;
///
/// looker.next(None)?;
/// for root in tree(looker.overview()) {
///     println!("{} requests wait:", root.blocks);
///     for row in root.rows {
///         let what = if row.is_held { "held" } else { "waits" };
///         println!("{:indent$}{} ({what})", "", row.name.name, indent = 2 * row.depth);
///     }
/// }
/// # assert_eq!(tree(looker.overview())[0].blocks, 1);
/// # Ok::<(), Error>(())
/// ```
pub fn tree(overview: &Overview) -> Vec<Root<'_>> {
    let graph = graph_builder::graph(overview);
    let mut parents = Parents::new(&graph);
    let parents: Vec<_> = graph.indices().map(|node| parents.of(node)).collect();
    let mut below: Vec<Vec<Index>> = vec![Vec::new(); graph.nodes.len()];
    for (node, parent) in graph.indices().zip(&parents) {
        if let Some((parent, _)) = parent {
            below[*parent as usize].push(node);
        }
    }
    let mut roots = Vec::new();
    let mut shown = vec![false; graph.nodes.len()];
    let mut counter = Counter::new(&graph);
    let mut plant = |root: Index, is_cycle, shown: &mut Vec<bool>| {
        let rows = rows(&graph, &parents, &below, root, shown);
        if rows.len() > 1 {
            roots.push(Root { blocks: counter.blocks(root), is_cycle, rows });
        }
    };
    for node in graph.indices().filter(|node| graph.at(*node).is_some()) {
        if parents[node as usize].is_none() {
            plant(node, false, &mut shown);
        }
    }
    // All nodes that are left lead to cycles. Of the locks of a cycle, the one that is held longest
    // is the root.
    let mut passed: Vec<Option<Index>> = vec![None; graph.nodes.len()];
    for start in graph.indices().filter(|node| graph.at(*node).is_some()) {
        let mut node = start;
        while !shown[node as usize] && passed[node as usize].is_none() {
            passed[node as usize] = Some(start);
            let Some((parent, _)) = parents[node as usize] else { break };
            node = parent;
        }
        // The way from `start` has come back to a node that it has passed, so this node is in a
        // cycle.
        if !shown[node as usize] && passed[node as usize] == Some(start) {
            let cycle = std::iter::successors(Some(node), |node| Some(parents[*node as usize]?.0));
            let mut cycle: Vec<Index> = cycle.skip(1).take_while(|other| *other != node).collect();
            cycle.push(node);
            let age = |node: &Index| graph.at(*node).map(|at| (!at.is_held, at.entry.since));
            let top = cycle.into_iter().min_by_key(age).unwrap_or(node);
            plant(top, true, &mut shown);
        }
    }
    roots.sort_by_key(|root| {
        (root.is_cycle, std::cmp::Reverse(root.blocks), root.rows[0].entry.since)
    });
    roots
}

/// Finds the node below which each node is shown.
struct Parents<'a, 'g> {
    graph: &'g Graph<'a>,
    /// For each node, the component of known steps that has a cycle and contains the node.
    known: Vec<Option<Index>>,
    /// The same for components of all steps, the possible ones included.
    any: Vec<Option<Index>>,
    /// For each node in between: the best node to which it leads, and the best one of another name than
    /// that.
    between: HashMap<Index, [Option<Index>; 2], RandomState>,
}

impl<'a, 'g> Parents<'a, 'g> {
    fn new(graph: &'g Graph<'a>) -> Self {
        let (known, any) = (components(graph, false), components(graph, true));
        Self { graph, known, any, between: HashMap::default() }
    }

    /// The node below which a node is shown, and why. If the node waits for one that is in a cycle
    /// with it, this is the one, because a cycle does not end by itself. Otherwise it is the first
    /// node for which the node waits.
    fn of(&mut self, node: Index) -> Option<(Index, Why)> {
        let name = self.graph.at(node)?.name;
        let mut best: Option<([bool; 4], Index, Why)> = None;
        let graph = self.graph;
        for &(to, why) in graph.waits.of(node) {
            let other = if graph.at(to).is_some() {
                Some(to)
            } else {
                let [first, second] = self.between(to);
                // An agent that waits for its own lock has two tasks that take turns, which is no
                // block.
                let is_own = |other: Index| {
                    why == Why::SameAgent && graph.at(other).is_some_and(|at| at.name == name)
                };
                if first.is_some_and(is_own) { second } else { first }
            };
            let Some(other) = other else { continue };
            let (in_known, in_any) = self.cycles(node, other);
            let worth = [in_known, in_any, why.is_known(), why == Why::Held];
            if best.is_none_or(|(known, ..)| known < worth) {
                best = Some((worth, other, why));
            }
        }
        best.map(|(_, other, why)| (other, why))
    }

    /// Whether two nodes are in a cycle with each other: by known steps alone, and by all steps.
    fn cycles(&self, node: Index, other: Index) -> (bool, bool) {
        let with = |cycles: &[Option<Index>]| {
            let cycle = cycles[node as usize];
            cycle.is_some() && cycle == cycles[other as usize]
        };
        (with(&self.known), with(&self.any))
    }

    fn between(&mut self, node: Index) -> [Option<Index>; 2] {
        if let Some(known) = self.between.get(&node) {
            return *known;
        }
        let graph = self.graph;
        let name = |other: Index| graph.at(other).map(|at| at.name);
        // The best node; the first one if several are equally good.
        let best = |than: Option<Index>| {
            let others = graph.waits.of(node).iter().map(|(other, _)| *other);
            let others = others.filter(|other| than.is_none_or(|than| name(*other) != name(than)));
            others.rev().max_by_key(|other| self.cycles(node, *other))
        };
        let first = best(None);
        let picked = [first, first.and_then(|first| best(Some(first)))];
        self.between.insert(node, picked);
        picked
    }
}

/// The rows below a root that were not shown before, each with the number of rows below it.
fn rows<'a>(
    graph: &Graph<'a>,
    parents: &[Option<(Index, Why)>],
    below: &[Vec<Index>],
    root: Index,
    shown: &mut [bool],
) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    let mut todo = vec![(root, 0)];
    while let Some((node, depth)) = todo.pop() {
        let Some(NamedEntry { name, entry, is_held }) = graph.at(node) else { continue };
        // A cycle leads back to its root, which has been shown already.
        if std::mem::replace(&mut shown[node as usize], true) {
            continue;
        }
        let why = parents[node as usize].map(|(_, why)| why).filter(|_| depth > 0);
        rows.push(Row { depth, why, name, entry, is_held, below: 0 });
        // They are added in reverse, because the last one is taken out first.
        todo.extend(below[node as usize].iter().rev().map(|node| (*node, depth + 1)));
    }
    // From the last row up: the rows below a row are the deeper ones that follow it directly.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for at in (0..rows.len()).rev() {
        let depth = rows[at].depth;
        let mut below = 0;
        while let Some((_, count)) = open.last().filter(|(other, _)| *other > depth) {
            below += count;
            open.pop();
        }
        rows[at].below = below;
        open.push((depth, below + 1));
    }
    rows
}

/// Counts the requests that wait for roots.
struct Counter<'a, 'g> {
    graph: &'g Graph<'a>,
    /// The root for which each node was last counted.
    seen: Vec<Index>,
    /// FAST: the number is the same for all roots that are locks of one name and mode.
    known: HashMap<(&'a LockName, Mode), usize, RandomState>,
}

impl<'a, 'g> Counter<'a, 'g> {
    fn new(graph: &'g Graph<'a>) -> Self {
        Self { graph, seen: vec![Index::MAX; graph.nodes.len()], known: HashMap::default() }
    }

    /// How many requests wait for this node, directly or not.
    fn blocks(&mut self, root: Index) -> usize {
        let key = self.graph.at(root).filter(|at| at.is_held);
        let key = key.map(|at| (at.name, at.entry.mode));
        if let Some(known) = key.and_then(|key| self.known.get(&key)) {
            return *known;
        }
        let mut requests = 0;
        let mut todo = vec![root];
        self.seen[root as usize] = root;
        while let Some(node) = todo.pop() {
            for &(other, _) in self.graph.blocks.of(node) {
                if std::mem::replace(&mut self.seen[other as usize], root) != root {
                    requests += usize::from(self.graph.is_request(other));
                    todo.push(other);
                }
            }
        }
        if let Some(key) = key {
            self.known.insert(key, requests);
        }
        requests
    }
}
