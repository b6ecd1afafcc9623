//! Tickets, by which a backend knows requests.

use navlock_engine::RequestId;

/// What a [`Backend`](super::Backend) knows a request by, and later the lock that the request
/// becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The lane: a number below [`Backend::lanes`](super::Backend::lanes).
    pub lane: u32,
    /// The id, which is never given twice in the same lane.
    pub id: RequestId,
}

/// A ticket without padding: for guards and pending requests, of which there are many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedTicket {
    serial: u64,
    index: u32,
    lane: u32,
}

impl PackedTicket {
    #[inline]
    pub(crate) fn unpack(self) -> Ticket {
        Ticket { lane: self.lane, id: RequestId::from_parts(self.index, self.serial) }
    }
}

impl From<Ticket> for PackedTicket {
    #[inline]
    fn from(Ticket { lane, id }: Ticket) -> Self {
        let (index, serial) = id.to_parts();
        Self { serial, index, lane }
    }
}
