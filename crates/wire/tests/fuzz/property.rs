//! What holds for any bytes that arrive. The targets in `fuzz/` include this file.

use std::fmt::Debug;

use bytes::BytesMut;
use navlock_wire::{CodecError, FromDaemon, MAX_FRAME, Message, Sent, decode, decode_last, encode};

/// What a decoder may use beside the frame and what is in proportion to it: a buffer of 64 KiB for
/// what follows a long frame, and the 1 MiB up to which serde believes the length of a list.
const BESIDE: usize = (64 << 10) + (1 << 20);

/// How many times as long as its frame a message may be in memory. It is that long when it is full
/// of empty texts, each of which is one byte in the frame, and lists double as they grow.
const UNFOLDED: usize = 32;

/// What one end says and the other one hears.
pub(crate) trait Said: Message + PartialEq + Debug {
    fn say(&self, bytes: &mut BytesMut) -> Result<(), CodecError>;
}

impl Said for Sent {
    fn say(&self, bytes: &mut BytesMut) -> Result<(), CodecError> {
        encode(&Sent { at: self.at, message: &self.message }, bytes)
    }
}

impl Said for FromDaemon {
    fn say(&self, bytes: &mut BytesMut) -> Result<(), CodecError> {
        encode(self, bytes)
    }
}

/// Asserts that the codec does with these bytes what it must.
///
/// The first byte is how many pieces they arrive in before the pattern repeats, and as many bytes
/// behind it are the pieces' lengths. What follows is the stream.
///
/// # Panics
///
/// If it does not.
pub(crate) fn holds<In: Said>(input: &[u8]) {
    let (lengths, stream) = cut(input);

    let mut whole = Vec::new();
    let end = decode_in_pieces(stream, &[], |message: In| whole.push(message));
    let mut pieces = Vec::new();
    let end_of_pieces = decode_in_pieces(stream, lengths, |message: In| pieces.push(message));
    assert_eq!(pieces, whole, "it depends on the pieces what is heard");
    assert_eq!(end_of_pieces, end, "it depends on the pieces how it ends");

    let said = say(&whole);
    assert!(said.len() <= stream.len(), "a message became longer than it was: {whole:?}");
    let mut again = Vec::new();
    let end = decode_in_pieces(&said, &[], |message: In| again.push(message));
    assert_eq!(again, whole, "what was heard comes back as something else");
    assert_eq!(end, None, "what was said ends with an error");

    // Last, because a panic within would leave the measuring switched on.
    let used = allocation_counter::measure(|| {
        decode_in_pieces(stream, lengths, |message: In| drop(message));
    });
    let allowed = MAX_FRAME + BESIDE + UNFOLDED * stream.len();
    assert!(used.bytes_max <= allowed as u64, "{} bytes in memory, not {allowed}", used.bytes_max);
}

/// The lengths of the pieces, and the stream.
fn cut(input: &[u8]) -> (&[u8], &[u8]) {
    let Some((&pieces, rest)) = input.split_first() else { return (&[], &[]) };
    rest.split_at_checked(pieces.into()).unwrap_or((&[], rest))
}

/// Decodes the stream in pieces of these lengths, or in one. How it ends, if it does with an error.
fn decode_in_pieces<In: Message>(
    stream: &[u8],
    lengths: &[u8],
    mut take_in: impl FnMut(In),
) -> Option<String> {
    let mut arrived = BytesMut::new();
    let mut rest = stream;
    // A piece of no length would be none; as a pattern of them it would never end.
    let mut lengths = lengths.iter().map(|&length| usize::from(length) + 1).cycle();
    while !rest.is_empty() {
        let length = lengths.next().unwrap_or(rest.len()).min(rest.len());
        let (piece, later) = rest.split_at(length);
        arrived.extend_from_slice(piece);
        rest = later;
        loop {
            match decode(&mut arrived) {
                Ok(Some(message)) => take_in(message),
                Ok(None) => break,
                Err(error) => return Some(error.to_string()),
            }
        }
    }
    match decode_last::<In>(&mut arrived) {
        Ok(None) => None,
        Ok(Some(_)) => panic!("a message was there and not heard before the end"),
        Err(error) => Some(error.to_string()),
    }
}

/// The frames of these messages.
fn say(messages: &[impl Said]) -> BytesMut {
    let mut bytes = BytesMut::new();
    for message in messages {
        if let Err(error) = message.say(&mut bytes) {
            panic!("{message:?} was heard and cannot be said: {error}");
        }
    }
    bytes
}
