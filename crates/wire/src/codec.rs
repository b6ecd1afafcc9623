//! Frames.

use std::{error::Error, fmt, io, marker::PhantomData};

use bytes::{Bytes, BytesMut};
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::codec::{Decoder, Encoder, LengthDelimitedCodec};

use crate::{FromDaemon, ToDaemon};

/// The longest frame, in bytes: room for the longest name, a few times over.
pub const MAX_FRAME: usize = 4 << 20;

/// The codec of a client: says [`ToDaemon`], hears [`FromDaemon`].
pub type ClientCodec = Codec<FromDaemon>;

/// The codec of the daemon: says [`FromDaemon`], hears [`ToDaemon`].
pub type DaemonCodec = Codec<ToDaemon>;

/// Frames to messages of the kind `In`, and messages to frames.
///
/// For tokio's `Framed`, or by hand over a `BytesMut`.
pub struct Codec<In> {
    frames: LengthDelimitedCodec,
    /// Whether a frame has begun to arrive and not ended; its length may have been taken already.
    within_frame: bool,
    hears: PhantomData<fn() -> In>,
}

/// Why bytes are no message, or a message does not fit into a frame.
///
/// A stream that gave one of these cannot be read on.
#[derive(Debug)]
#[non_exhaustive]
pub enum CodecError {
    /// The frame is longer than [`MAX_FRAME`].
    TooLong,
    /// The stream ended within a frame.
    Truncated,
    /// The frame holds no message of this protocol.
    Malformed,
    /// The stream itself failed.
    Io(io::Error),
}

/// A message, as far as the codec must know it.
#[doc(hidden)]
pub trait Message: Serialize + DeserializeOwned {
    /// Whether a later version may have appended members.
    fn may_have_grown(&self) -> bool;
}

impl Message for ToDaemon {
    fn may_have_grown(&self) -> bool {
        matches!(self, Self::Hello { .. })
    }
}

impl Message for FromDaemon {
    fn may_have_grown(&self) -> bool {
        matches!(self, Self::Welcome { .. } | Self::Refused { .. })
    }
}

impl<In: Message> Decoder for Codec<In> {
    type Item = In;
    type Error = CodecError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<In>, CodecError> {
        self.within_frame |= !bytes.is_empty();
        let Some(frame) = self.frames.decode(bytes).map_err(|_| CodecError::TooLong)? else {
            return Ok(None);
        };
        self.within_frame = false;
        let (message, rest): (In, _) =
            postcard::take_from_bytes(&frame).map_err(|_| CodecError::Malformed)?;
        if !rest.is_empty() && !message.may_have_grown() {
            return Err(CodecError::Malformed);
        }
        Ok(Some(message))
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<In>, CodecError> {
        match self.decode(bytes)? {
            None if self.within_frame => Err(CodecError::Truncated),
            message => Ok(message),
        }
    }
}

impl<In, Out: Message> Encoder<&Out> for Codec<In> {
    type Error = CodecError;

    /// Appends the message's frame, or nothing if it fails.
    fn encode(&mut self, message: &Out, bytes: &mut BytesMut) -> Result<(), CodecError> {
        let message = postcard::to_allocvec(message).map_err(|_| CodecError::Malformed)?;
        self.frames.encode(Bytes::from(message), bytes).map_err(|_| CodecError::TooLong)
    }
}

impl<In> Default for Codec<In> {
    fn default() -> Self {
        let frames = LengthDelimitedCodec::builder().max_frame_length(MAX_FRAME).new_codec();
        Self { frames, within_frame: false, hears: PhantomData }
    }
}

impl<In> fmt::Debug for Codec<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").finish_non_exhaustive()
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "a frame is longer than {MAX_FRAME} bytes"),
            Self::Truncated => f.write_str("the stream ended within a frame"),
            Self::Malformed => f.write_str("a frame holds no message of navlock's protocol"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl Error for CodecError {}

impl From<io::Error> for CodecError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests;
