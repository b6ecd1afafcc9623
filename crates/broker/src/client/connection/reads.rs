//! How often the socket was read, by whichever thread had the reader.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use navlock_wire::FromDaemon;

use super::super::reader::{End, Reader};

#[derive(Default)]
pub(in super::super) struct Reads {
    begun: AtomicU64,
    /// The number of the last read that has left nothing in the socket.
    emptied: AtomicU64,
}

impl Reads {
    /// Reads what has come. Whoever has the reader reads by this.
    pub(in super::super) fn read(
        &self,
        reader: &mut Reader,
        handle_message: impl FnMut(FromDaemon),
    ) -> Result<bool, End> {
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        let heard = reader.read_available(handle_message);
        if heard.is_err() || !reader.has_more() {
            self.emptied.store(number, SeqCst);
        }
        heard
    }

    /// How many have begun so far.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(SeqCst)
    }

    /// Whether all that had come by then was read, when so many had begun.
    pub(super) fn have_emptied_since(&self, begun: u64) -> bool {
        self.emptied.load(SeqCst) > begun
    }
}
