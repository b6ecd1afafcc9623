//! The codec: messages to frames, and frames to messages.

use std::{error::Error, fmt};

use bytes::{Buf, BufMut, BytesMut};
use postcard::ser_flavors::Flavor;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    from_daemon::FromDaemon,
    limits::MAX_FRAME,
    to_daemon::{Sent, ToDaemon},
};

/// How many bytes of a frame are its length.
const LENGTH: usize = 4;

/// How many bytes a buffer keeps that has grown for a long frame; more are given back.
const BUFFER: usize = 64 << 10;

/// Why bytes are no message, or a message cannot become a frame.
///
/// After an error of decoding, the stream cannot be read any further. After an error of encoding, nothing
/// of the message was appended, and the stream is as good as before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// The frame is longer than [`MAX_FRAME`].
    TooLong,
    /// The stream ended within a frame.
    Truncated,
    /// The frame holds no message of this protocol, for this reason.
    Malformed(postcard::Error),
    /// The frame holds more than its message.
    TrailingBytes,
    /// The message cannot be encoded, for this reason.
    Unencodable(postcard::Error),
}

/// A message that the codec can read and write.
#[doc(hidden)]
pub trait Message: Serialize + DeserializeOwned {
    /// Whether a later version may have appended members to this message. Bytes after the known members
    /// are then ignored, and else they are an error.
    fn may_have_grown(&self) -> bool;
}

impl Message for Sent {
    fn may_have_grown(&self) -> bool {
        matches!(self.message, ToDaemon::Hello { .. })
    }
}

impl Message for FromDaemon {
    fn may_have_grown(&self) -> bool {
        matches!(self, Self::Welcome { .. } | Self::Refused { .. })
    }
}

/// Takes the first message from these bytes, if its frame is whole: [`FromDaemon`] at a client, [`Sent`] at the daemon.
///
/// # Errors
///
/// If the bytes are no messages.
pub fn decode<M: Message>(bytes: &mut BytesMut) -> Result<Option<M>, CodecError> {
    let Some((head, rest)) = bytes.split_first_chunk::<LENGTH>() else { return Ok(None) };
    let length = u32::from_be_bytes(*head) as usize;
    if length > MAX_FRAME {
        return Err(CodecError::TooLong);
    }
    let Some(frame) = rest.get(..length) else {
        // Exactly what the frame needs: left to itself, the buffer would grow to twice that.
        let missing = length - rest.len();
        bytes.reserve(missing);
        return Ok(None);
    };
    let message = read(frame);
    bytes.advance(LENGTH + length);
    if length > BUFFER && bytes.len() <= BUFFER {
        // The next frames are likely short, and the connection may last for days.
        let mut small = BytesMut::with_capacity(BUFFER);
        small.extend_from_slice(bytes);
        *bytes = small;
    }
    message.map(Some)
}

/// Takes the first message from these bytes, to which no more are added.
///
/// # Errors
///
/// As [`decode`], and if the bytes end within a frame.
pub fn decode_last<M: Message>(bytes: &mut BytesMut) -> Result<Option<M>, CodecError> {
    match decode(bytes)? {
        None if !bytes.is_empty() => Err(CodecError::Truncated),
        message => Ok(message),
    }
}

/// Reads the message that is the content of a frame.
fn read<In: Message>(frame: &[u8]) -> Result<In, CodecError> {
    let (message, rest): (In, _) =
        postcard::take_from_bytes(frame).map_err(CodecError::Malformed)?;
    if !rest.is_empty() && !message.may_have_grown() {
        return Err(CodecError::TrailingBytes);
    }
    Ok(message)
}

/// A message as it is sent: by the daemon, or by a client with the time.
#[doc(hidden)]
pub trait Outgoing: Serialize {}

impl Outgoing for FromDaemon {}

impl Outgoing for Sent<&ToDaemon> {}

/// Appends the frame of a message, or nothing if that fails.
///
/// # Errors
///
/// If the message is longer than a frame may be, or cannot be encoded.
pub fn encode(message: &impl Outgoing, bytes: &mut BytesMut) -> Result<(), CodecError> {
    append_frame(bytes, |bytes| append(message, bytes))
}

/// Appends a frame with what `content` appends, or nothing if that fails.
pub(crate) fn append_frame(
    bytes: &mut BytesMut,
    content: impl FnOnce(&mut BytesMut) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    let start = bytes.len();
    // Room for the length, which is known once the message stands behind it.
    bytes.put_u32(0);
    let done = content(bytes).and_then(|()| {
        let length = bytes.len() - start - LENGTH;
        let length = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME);
        let length = length.ok_or(CodecError::TooLong)?;
        bytes[start..start + LENGTH].copy_from_slice(&length.to_be_bytes());
        Ok(())
    });
    if done.is_err() {
        bytes.truncate(start);
    }
    done
}

/// Appends the encoding of `what`, or nothing if that fails.
pub(crate) fn append(what: &impl Serialize, bytes: &mut BytesMut) -> Result<(), CodecError> {
    let start = bytes.len();
    postcard::serialize_with_flavor(what, Content::new(bytes)).map_err(|error| {
        bytes.truncate(start);
        match error {
            postcard::Error::SerializeBufferFull => CodecError::TooLong,
            error => CodecError::Unencodable(error),
        }
    })
}

/// What postcard writes into: it appends to `bytes`, no more than a frame may have.
struct Content<'a> {
    bytes: &'a mut BytesMut,
    /// Where the message begins.
    start: usize,
    /// Where the message goes on. From here to the end, `bytes` has zeros to be overwritten.
    ///
    /// FAST: most pieces of a message are one byte long, and to append each of them is slower.
    end: usize,
}

impl<'a> Content<'a> {
    fn new(bytes: &'a mut BytesMut) -> Self {
        let start = bytes.len();
        Self { bytes, start, end: start }
    }

    /// The place of the next `length` bytes.
    #[inline]
    fn next(&mut self, length: usize) -> postcard::Result<&mut [u8]> {
        let place = self.end..self.end + length;
        if place.end > self.bytes.len() {
            self.grow(place.end)?;
        }
        self.end = place.end;
        Ok(&mut self.bytes[place])
    }

    /// Makes room up to `end`, and some for what follows.
    #[cold]
    fn grow(&mut self, end: usize) -> postcard::Result<()> {
        let longest = self.start + MAX_FRAME;
        if end > longest {
            return Err(postcard::Error::SerializeBufferFull);
        }
        let spare = (end - self.start).clamp(32, 1024);
        self.bytes.resize(longest.min(end + spare), 0);
        Ok(())
    }
}

impl Flavor for Content<'_> {
    type Output = ();

    #[inline]
    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        self.next(data.len())?.copy_from_slice(data);
        Ok(())
    }

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.next(1)?[0] = byte;
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        self.bytes.truncate(self.end);
        Ok(())
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "a frame is longer than {MAX_FRAME} bytes"),
            Self::Truncated => f.write_str("the stream ended within a frame"),
            Self::Malformed(error) => {
                write!(f, "a frame holds no message of navlock's protocol: {error}")
            }
            Self::TrailingBytes => {
                f.write_str("a frame holds bytes after its message of navlock's protocol")
            }
            Self::Unencodable(error) => write!(f, "a message cannot be encoded: {error}"),
        }
    }
}

impl Error for CodecError {
    /// The error of the encoding. The text of this error contains its words.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Malformed(error) | Self::Unencodable(error) => Some(error),
            Self::TooLong | Self::Truncated | Self::TrailingBytes => None,
        }
    }
}

#[cfg(test)]
mod tests;
