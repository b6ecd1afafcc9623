//! Events that many are told, encoded once.

use bytes::BytesMut;

use crate::{
    codec::{CodecError, append, append_frame},
    from_daemon::FromDaemon,
    looking::LookEvent,
};

impl LookEvent {
    /// Appends the event in the form that it has in a message, for [`encode_look_events`].
    ///
    /// # Errors
    ///
    /// If the event does not fit into a frame. Nothing is appended then.
    pub fn encode(&self, bytes: &mut BytesMut) -> Result<(), CodecError> {
        append(self, bytes)
    }
}

/// Appends the frame of a [`FromDaemon::LookEvents`] with `count` events, which were encoded before
/// and stand in `events` one behind the other: what is told to many is encoded once.
///
/// # Errors
///
/// If the events do not fit into a frame. Nothing is appended then.
pub fn encode_look_events<'a>(
    count: usize,
    events: impl IntoIterator<Item = &'a [u8]>,
    bytes: &mut BytesMut,
) -> Result<(), CodecError> {
    append_frame(bytes, |bytes| {
        append(&FromDaemon::LookEvents { events: Vec::new() }, bytes)?;
        // The last byte is the number of events, none.
        bytes.truncate(bytes.len() - 1);
        append(&count, bytes)?;
        events.into_iter().for_each(|events| bytes.extend_from_slice(events));
        Ok(())
    })
}
