//! The places in which requests and locks stand.

use std::{
    mem,
    ops::{Index, IndexMut},
};

use crate::{
    FencingToken,
    links::{Links, NONE},
    request::{Node, NodeLinks, Owner, Stage},
};

/// Requests and locks, each at an index that is small and used again.
///
/// FAST: like a slab, but a node is written directly in its place. A slab's entry is made elsewhere and
///       then moved, and the loads of the move have to wait for the stores right before.
#[derive(Clone, Debug)]
pub(crate) struct Nodes<T> {
    places: Vec<Node<T>>,
    /// The place that became vacant last, which links to the one that became vacant before it; [`NONE`] if
    /// all places are taken.
    vacant: u32,
    /// How many places are not vacant.
    taken: usize,
}

impl<T> Default for Nodes<T> {
    fn default() -> Self {
        Self { places: Vec::new(), vacant: NONE, taken: 0 }
    }
}

impl<T> Nodes<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    pub(crate) fn capacity(&self) -> usize {
        self.places.capacity()
    }

    /// What stands at `index`, if anything does.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&Node<T>> {
        self.places.get(index).filter(|node| node.stage != Stage::Vacant)
    }

    /// A mutable reference to what stands at `index`, if anything does.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Node<T>> {
        self.places.get_mut(index).filter(|node| node.stage != Stage::Vacant)
    }

    /// Where the next request or lock will stand.
    #[inline]
    pub(crate) fn next_index(&self) -> u32 {
        match self.vacant {
            NONE => {
                let index = u32::try_from(self.places.len()).ok().filter(|&index| index != NONE);
                index.expect("memory ends before there are 2^32 places of 64 bytes")
            }
            vacant => vacant,
        }
    }
}

impl<T: Default> Nodes<T> {
    /// Adds a request or a lock, which then stands at what [`next_index`](Self::next_index) was.
    #[inline]
    pub(crate) fn add(
        &mut self,
        serial: u64,
        owner: Owner,
        links: NodeLinks,
        held: Option<FencingToken>,
    ) {
        let stage = if held.is_some() { Stage::Held } else { Stage::Pending };
        let token = held.unwrap_or(FencingToken::new(0));
        self.taken += 1;
        match self.vacant {
            NONE => {
                let data = T::default();
                self.places.push(Node { serial, token, owner, links, stage, data });
            }
            vacant => {
                let node = &mut self[vacant];
                let next = node.links.by_name.next();
                node.serial = serial;
                node.token = token;
                node.owner = owner;
                node.links = links;
                node.stage = stage;
                self.vacant = next;
            }
        }
    }

    /// Takes out the request or lock at `index`. Returns its owner, its neighbours, and the host's
    /// data.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> (Owner, NodeLinks, T) {
        let vacant = mem::replace(&mut self.vacant, index);
        self.taken -= 1;
        let node = &mut self[index];
        let removed = (node.owner, node.links, mem::take(&mut node.data));
        node.stage = Stage::Vacant;
        node.links.by_name = Links::before(vacant);
        removed
    }
}

impl<T> Index<u32> for Nodes<T> {
    type Output = Node<T>;

    #[inline]
    fn index(&self, index: u32) -> &Node<T> {
        &self.places[index as usize]
    }
}

impl<T> IndexMut<u32> for Nodes<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Node<T> {
        &mut self.places[index as usize]
    }
}
