//! Events that many are told, encoded once.

use bytes::BytesMut;

use crate::{
    codec::{CodecError, append, append_frame},
    from_daemon::FromDaemon,
    looking::LookEvent,
};

impl LookEvent {
    /// Appends it in the form in which it stands in a message, for [`encode_look_events`].
    ///
    /// # Errors
    ///
    /// If it does not fit into a frame. Nothing is appended then.
    pub fn encode(&self, bytes: &mut BytesMut) -> Result<(), CodecError> {
        append(self, bytes)
    }
}

/// Appends the frame of a [`FromDaemon::LookEvents`] with so many events, which stand in these bytes one
/// behind the other: what is told to many is encoded once.
///
/// # Errors
///
/// If they do not fit into a frame. Nothing is appended then.
pub fn encode_look_events<'a>(
    count: usize,
    events: impl IntoIterator<Item = &'a [u8]>,
    bytes: &mut BytesMut,
) -> Result<(), CodecError> {
    append_frame(bytes, |bytes| {
        append(&FromDaemon::LookEvents { events: Vec::new() }, bytes)?;
        // The last byte says that there are none.
        bytes.truncate(bytes.len() - 1);
        append(&count, bytes)?;
        events.into_iter().for_each(|events| bytes.extend_from_slice(events));
        Ok(())
    })
}
