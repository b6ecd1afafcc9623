//! Doubly linked lists through the nodes of requests and locks. To append or to remove a node takes
//! constant time, and no allocation.

use crate::{
    links::{Links, NONE},
    nodes::Nodes,
    request::Node,
};

/// Both ends of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

/// Which of a node's two lists is meant.
pub(crate) type Select<T> = fn(&mut Node<T>) -> &mut Links;

/// The list of a resource: its queue or its held locks.
#[inline]
pub(crate) fn by_name<T>(node: &mut Node<T>) -> &mut Links {
    &mut node.links.by_name
}

/// The list of an agent: its requests or its locks.
#[inline]
pub(crate) fn by_agent<T>(node: &mut Node<T>) -> &mut Links {
    &mut node.links.by_agent
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    pub(crate) const fn is_empty(self) -> bool {
        self.first == NONE
    }

    /// The index of the first node.
    pub(crate) fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Appends the node that stands or will stand at `index`. Returns the links that it has to get.
    #[inline]
    pub(crate) fn push_back<T>(
        &mut self,
        nodes: &mut Nodes<T>,
        index: u32,
        select: Select<T>,
    ) -> Links {
        let links = Links { previous: self.last, next: NONE };
        match self.last {
            NONE => self.first = index,
            last => select(&mut nodes[last]).next = index,
        }
        self.last = index;
        links
    }

    /// Takes out the node of this list that has these links.
    #[inline]
    pub(crate) fn remove<T>(&mut self, nodes: &mut Nodes<T>, links: Links, select: Select<T>) {
        let Links { previous, next } = links;
        match previous {
            NONE => self.first = next,
            previous => select(&mut nodes[previous]).next = next,
        }
        match next {
            NONE => self.last = previous,
            next => select(&mut nodes[next]).previous = previous,
        }
    }

    /// The nodes of a resource's list, first to last.
    pub(crate) fn iter_by_name<T>(self, nodes: &Nodes<T>) -> impl Iterator<Item = (u32, &Node<T>)> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let node = (at != NONE).then(|| (at, &nodes[at]))?;
            at = node.1.links.by_name.next;
            Some(node)
        })
    }
}
