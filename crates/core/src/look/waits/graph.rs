//! What waits for what, as numbers.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use navlock_engine::Mode;

use crate::{
    ClientId,
    look::{Entry, LockId, LockName, Overview},
};

/// Why something waits for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// A request: the lock is held, and conflicts with it. A hard block.
    Held,
    /// A request: the other one is before it in the queue, and conflicts with it. A soft block; none that is
    /// known to last if that one [may give up](Entry::may_give_up).
    Ahead,
    /// A lock: the request was made inside it.
    Inside,
    /// A lock: the request is the same agent's, and nobody said inside what it was made.
    SameAgent,
    /// A lock of another machine: the request was made inside a lock of its agent's, and which one is known to that
    /// machine alone.
    InsideAgent,
}

impl Why {
    /// Whether it is known that the one waits for the other.
    pub(super) fn is_known(self) -> bool {
        !matches!(self, Self::SameAgent | Self::InsideAgent)
    }
}

/// A lock or a request, and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) name: &'a LockName,
    pub(super) entry: &'a Entry,
    pub(super) is_held: bool,
}

/// A number of a node.
pub(super) type Index = u32;

/// Locks and requests, and what each waits for.
///
/// That 10,000 requests wait for 10,000 shared locks of a name is 20,000 edges, through a node between
/// them; and so it is for the locks and requests of one agent.
pub(super) struct Graph<'a> {
    /// `None` for a node that only stands between others.
    pub(super) nodes: Vec<Option<At<'a>>>,
    /// From each node to what it waits for.
    pub(super) waits: Edges,
    /// From each node to what waits for it.
    pub(super) blocks: Edges,
}

/// Edges in rows, one for each node.
pub(super) struct Edges {
    /// Where each row begins, and where the last one ends.
    starts: Vec<u32>,
    edges: Vec<(Index, Why)>,
}

/// The last requests of a queue.
#[derive(Default)]
struct Last {
    any: Option<Index>,
    exclusive: Option<Index>,
}

impl Last {
    /// The last one that conflicts with one of this mode.
    fn before(&self, mode: Mode) -> Option<Index> {
        match mode {
            Mode::Exclusive => self.any,
            Mode::Shared => self.exclusive,
        }
    }

    fn add(&mut self, request: Index, mode: Mode) {
        self.any = Some(request);
        if mode == Mode::Exclusive {
            self.exclusive = self.any;
        }
    }
}

/// What an agent has, and requests of which it is not known inside which of that they were made.
#[derive(Default)]
struct Has {
    locks: Vec<Index>,
    requests: Vec<Index>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(overview: &'a Overview) -> Self {
        let mut nodes: Vec<Option<At<'a>>> = Vec::new();
        let mut edges = Vec::new();
        let mut locks: HashMap<LockId, Index, RandomState> = HashMap::default();
        let mut has: HashMap<ClientId, Has, RandomState> = HashMap::default();

        for (name, queue) in &overview.queues {
            let first = index(nodes.len());
            for entry in &queue.held {
                locks.insert(entry.id, index(nodes.len()));
                nodes.push(Some(At { name, entry, is_held: true }));
            }
            if queue.pending.is_empty() {
                continue;
            }
            let held = first..index(nodes.len());
            let modes = queue.held.iter().map(|entry| entry.mode);
            let exclusive = held.clone().zip(modes).find(|(_, mode)| *mode == Mode::Exclusive);
            // What exclusive requests wait for.
            let all = match held.len() {
                0 => None,
                1 => Some(held.start),
                _ => {
                    let between = index(nodes.len());
                    nodes.push(None);
                    edges.extend(held.map(|lock| (between, lock, Why::Held)));
                    Some(between)
                }
            };
            let (mut last, mut last_to_stay) = (Last::default(), Last::default());
            for entry in &queue.pending {
                let request = index(nodes.len());
                nodes.push(Some(At { name, entry, is_held: false }));
                let hard = match entry.mode {
                    Mode::Exclusive => all,
                    Mode::Shared => exclusive.map(|(lock, _)| lock),
                };
                edges.extend(hard.map(|to| (request, to, Why::Held)));
                let soft = last.before(entry.mode);
                edges.extend(soft.map(|to| (request, to, Why::Ahead)));
                // Once those have given up that may, it waits for the last one before them.
                let to_stay = last_to_stay.before(entry.mode).filter(|to| soft != Some(*to));
                edges.extend(to_stay.map(|to| (request, to, Why::Ahead)));
                last.add(request, entry.mode);
                if !entry.may_give_up {
                    last_to_stay.add(request, entry.mode);
                }
                // Who says so of one lock of its own would have said so of others.
                let whose = entry.id.client_id;
                if !entry.inside.iter().any(|lock| lock.client_id == whose) {
                    let requests = &mut has.entry(whose).or_default().requests;
                    // The first of each name.
                    let is_of_this_name = |last: &Index| *last >= first;
                    if !requests.last().is_some_and(is_of_this_name) {
                        requests.push(request);
                    }
                }
            }
        }

        for (request, at) in (0..).zip(&nodes) {
            let Some(At { entry, is_held: false, .. }) = at else { continue };
            // A name that is taken without asking is known by one id, whenever it is held. If that was
            // taken after the request was made, it is not what the request was made inside of.
            let is_later = |lock: Index| {
                let lock = nodes[lock as usize].map(|at| at.entry);
                lock.is_some_and(|lock| lock.taken > 0 && lock.since > entry.since)
            };
            let inside = entry.inside.iter().filter_map(|lock| locks.get(lock));
            let inside = inside.filter(|lock| !is_later(**lock));
            edges.extend(inside.map(|lock| (*lock, request, Why::Inside)));
        }
        add_inside_agents(&mut nodes, &locks, &mut edges);

        // Of those who wait for anything so, what they hold.
        for (id, lock) in &locks {
            if let Some(has) = has.get_mut(&id.client_id) {
                has.locks.push(*lock);
            }
        }
        let name_of =
            |nodes: &[Option<At<'a>>], node: Index| nodes[node as usize].map(|at| at.name);
        for Has { locks, requests } in has.into_values() {
            match *requests {
                // Of the same name it would be waiting for another task of its own, as is usual.
                [request] => {
                    let name = name_of(&nodes, request);
                    let others = locks.into_iter().filter(|lock| name_of(&nodes, *lock) != name);
                    edges.extend(others.map(|lock| (lock, request, Why::SameAgent)));
                }
                _ if locks.is_empty() => {}
                _ => {
                    let between = index(nodes.len());
                    nodes.push(None);
                    edges.extend(locks.into_iter().map(|lock| (lock, between, Why::SameAgent)));
                    edges.extend(requests.iter().map(|to| (between, *to, Why::SameAgent)));
                }
            }
        }

        let backwards = edges.iter().map(|&(from, to, why)| (to, from, why));
        let blocks = Edges::new(nodes.len(), backwards);
        let waits = Edges::new(nodes.len(), edges.iter().copied());
        Self { nodes, waits, blocks }
    }

    /// The lock or request of a node; `None` if it only stands between others.
    pub(super) fn at(&self, node: Index) -> Option<At<'a>> {
        self.nodes[node as usize]
    }

    /// Whether the node is a pending request.
    pub(super) fn is_request(&self, node: Index) -> bool {
        self.at(node).is_some_and(|at| !at.is_held)
    }

    /// All nodes.
    pub(super) fn indices(&self) -> std::ops::Range<Index> {
        0..index(self.nodes.len())
    }
}

/// From the locks of other machines to the requests that were made inside a lock of the same agent's: that said by
/// which id its own broker knows it, and here it has another one.
fn add_inside_agents(
    nodes: &mut Vec<Option<At<'_>>>,
    locks: &HashMap<LockId, Index, RandomState>,
    edges: &mut Vec<(Index, Index, Why)>,
) {
    let mut inside: HashMap<ClientId, Has, RandomState> = HashMap::default();
    for (request, at) in (0..).zip(&*nodes) {
        let Some(At { entry, is_held: false, .. }) = at else { continue };
        for lock in entry.inside.iter().filter(|lock| !locks.contains_key(lock)) {
            let requests = &mut inside.entry(lock.client_id).or_default().requests;
            if requests.last() != Some(&request) {
                requests.push(request);
            }
        }
    }
    // FAST: mostly all are known.
    if inside.is_empty() {
        return;
    }
    for (id, lock) in locks.iter().filter(|(id, _)| id.is_made_up()) {
        if let Some(has) = inside.get_mut(&id.client_id) {
            has.locks.push(*lock);
        }
    }
    for Has { mut locks, requests } in inside.into_values() {
        locks.sort_unstable();
        match *requests {
            [request] => edges.extend(locks.iter().map(|lock| (*lock, request, Why::InsideAgent))),
            _ if locks.is_empty() => {}
            _ => {
                let between = index(nodes.len());
                nodes.push(None);
                edges.extend(locks.iter().map(|lock| (*lock, between, Why::InsideAgent)));
                edges.extend(requests.iter().map(|to| (between, *to, Why::InsideAgent)));
            }
        }
    }
}

impl Edges {
    fn new(nodes: usize, edges: impl Iterator<Item = (Index, Index, Why)> + Clone) -> Self {
        let mut starts = vec![0; nodes + 1];
        for (from, ..) in edges.clone() {
            starts[from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut rows = vec![(0, Why::Held); starts[nodes] as usize];
        for (from, to, why) in edges {
            rows[next[from as usize] as usize] = (to, why);
            next[from as usize] += 1;
        }
        Self { starts, edges: rows }
    }

    /// The edges of a node.
    pub(super) fn of(&self, node: Index) -> &[(Index, Why)] {
        let (start, end) = (self.starts[node as usize], self.starts[node as usize + 1]);
        &self.edges[start as usize..end as usize]
    }
}

/// The number of the node that stands there.
pub(super) fn index(at: usize) -> Index {
    // An overview of so many would not fit into any memory.
    Index::try_from(at).expect("there are fewer than 2^32 locks and requests")
}
