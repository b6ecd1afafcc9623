//! What is on its way to the daemon.

use std::{cell::Cell, mem, sync::Arc};

use bytes::BytesMut;
use navlock_platform::socket::Stream;

use super::super::reader::send;

thread_local! {
    /// Whether this thread keeps a connection. It reads what the daemon says, so it waits for nothing else.
    static KEEPS: Cell<bool> = const { Cell::new(false) };
}

/// The bytes that are on their way to the daemon. What it does not take at once, the maintainer sends later,
/// and only who has ended something [waits](super::Shared::end) for that.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) socket: Option<Arc<Stream>>,
    pub(super) bytes: BytesMut,
    /// How many bytes have left the process, or were for a connection that has ended.
    pub(super) gone: usize,
    /// Whether the daemon was waited for in vain, and not everything was sent since. It may be stopped.
    pub(super) is_vain: bool,
}

impl Writer {
    /// Appends these bytes to those that were left.
    pub(super) fn take(&mut self, new: &mut BytesMut) {
        if self.bytes.is_empty() {
            mem::swap(&mut self.bytes, new);
        } else {
            self.bytes.extend_from_slice(new);
            new.clear();
        }
    }

    /// Sends what there is. Returns whether everything is sent.
    pub(super) fn send(&mut self) -> bool {
        let Some(socket) = &self.socket else { return true };
        let before = self.bytes.len();
        let is_sent = send(socket, &mut self.bytes);
        self.gone = self.gone.wrapping_add(before - self.bytes.len());
        self.is_vain &= !is_sent;
        is_sent
    }

    /// Forgets what there is, because its connection has ended.
    pub(super) fn clear(&mut self) {
        self.gone = self.gone.wrapping_add(self.bytes.len());
        self.bytes.clear();
        self.is_vain = false;
    }
}

/// To be called by a thread that keeps a connection, before anything else.
pub(in super::super) fn never_wait() {
    KEEPS.set(true);
}

/// Whether this thread keeps a connection.
pub(super) fn keeps() -> bool {
    KEEPS.get()
}
