//! What is on its way to the daemon.

use std::{mem, sync::Arc};

use bytes::BytesMut;
use navlock_platform::socket::Stream;

use super::super::reader::send;

/// The bytes that are on their way to the daemon. Nobody waits for a daemon that does not read:
/// what it does not take at once, the maintainer sends later.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) socket: Option<Arc<Stream>>,
    pub(super) bytes: BytesMut,
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
        match &self.socket {
            Some(socket) => send(socket, &mut self.bytes),
            None => true,
        }
    }
}
