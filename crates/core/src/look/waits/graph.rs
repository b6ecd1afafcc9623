//! The graph of locks and requests: which of them wait for which.

use crate::look::{Entry, LockName};

/// Why a node waits for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// A request waits for a held lock that conflicts with it. A hard block.
    Held,
    /// A request waits for another request before it in the queue that conflicts with it. A soft block. It
    /// is not certain to last if the other request [may give up](crate::look::Patience::MayGiveUp).
    Ahead,
    /// A lock waits for a request that was made inside it.
    Inside,
    /// A lock may wait for a request of the same agent, if the request does not say what it is
    /// inside of.
    SameAgent,
    /// A lock may wait for a request of a process that the holder's program has started: the program may wait for that
    /// process, or not.
    InsideAgent,
}

impl Why {
    /// Whether the wait is certain, and not only possible.
    pub(super) fn is_known(self) -> bool {
        !matches!(self, Self::SameAgent | Self::InsideAgent)
    }
}

/// A lock or a request, with its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedEntry<'a> {
    pub(super) name: &'a LockName,
    pub(super) entry: &'a Entry,
    pub(super) is_held: bool,
}

/// The number of a node.
pub(super) type Index = u32;

/// Locks and requests, and what each of them waits for.
///
/// If 10,000 requests wait for 10,000 shared locks of a name, one node in between stands for the
/// locks: each request leads to it, and it leads to each lock. So the graph has 20,000 edges for these
/// waits. Such a node also stands between the locks and the requests of one agent.
pub(super) struct Graph<'a> {
    /// The lock or request of each node; `None` for a node in between.
    pub(super) nodes: Vec<Option<NamedEntry<'a>>>,
    /// The edges from each node to those for which it waits.
    pub(super) waits: Edges,
    /// The edges from each node to those that wait for it.
    pub(super) blocks: Edges,
}

/// Edges in rows, one for each node.
pub(super) struct Edges {
    /// The beginning of each row, and the end of the last one.
    starts: Vec<u32>,
    edges: Vec<(Index, Why)>,
}

impl<'a> Graph<'a> {
    /// The lock or request of a node; `None` for a node in between.
    pub(super) fn at(&self, node: Index) -> Option<NamedEntry<'a>> {
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

impl Edges {
    pub(super) fn new(
        nodes: usize,
        edges: impl Iterator<Item = (Index, Index, Why)> + Clone,
    ) -> Self {
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

/// The number of the node at this place.
pub(super) fn index(at: usize) -> Index {
    // An overview with so many entries would not fit into any memory.
    Index::try_from(at).expect("there are fewer than 2^32 locks and requests")
}
