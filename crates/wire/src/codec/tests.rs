mod corpus;
mod examples;

use navlock_engine::{RequestId, RequestKind};

use self::examples::*;
use super::*;
use crate::MAX_NAME;

/// The place of a message's variant in its enum, by which postcard knows it. No place may change.
trait Place {
    /// How many variants there are.
    const PLACES: usize;
    fn place(&self) -> u8;
}

/// What one end says and the other one hears.
trait Tested: Message + PartialEq + fmt::Debug {
    /// The message in it.
    type Inner: Place;
    /// Where the place of the message's variant stands in the frame.
    const AT: usize;
    fn inner(&self) -> &Self::Inner;
    fn encode(&self, bytes: &mut BytesMut) -> Result<(), CodecError>;
}

impl Tested for Sent {
    type Inner = ToDaemon;
    /// Behind the time, which takes one byte in [`sent`].
    const AT: usize = LENGTH + 1;

    fn inner(&self) -> &ToDaemon {
        &self.message
    }

    fn encode(&self, bytes: &mut BytesMut) -> Result<(), CodecError> {
        encode(&Sent { at: self.at, message: &self.message }, bytes)
    }
}

impl Tested for FromDaemon {
    type Inner = Self;
    const AT: usize = LENGTH;

    fn inner(&self) -> &Self {
        self
    }

    fn encode(&self, bytes: &mut BytesMut) -> Result<(), CodecError> {
        encode(self, bytes)
    }
}

/// This message, at a time of one byte.
fn sent(message: ToDaemon) -> Sent {
    Sent { at: 7, message }
}

/// Every message of a client.
fn all_sent() -> Vec<Sent> {
    all_to_daemon().into_iter().map(sent).collect()
}

/// Implements [`Place`] by a list of all variants. The match has no rest, so that a new variant cannot
/// be forgotten here.
macro_rules! places {
    ($message:ident { $($variant:ident = $place:literal,)* }) => {
        impl Place for $message {
            const PLACES: usize = [$($place),*].len();
            fn place(&self) -> u8 {
                match self {
                    $(Self::$variant { .. } => $place,)*
                }
            }
        }
    };
}

places!(ToDaemon {
    Hello = 0,
    OpenAgent = 1,
    CloseAgent = 2,
    Terminate = 3,
    Request = 4,
    Finish = 5,
    Query = 6,
    Introduce = 7,
    ClaimLock = 8,
    ClaimRequest = 9,
    Claimed = 10,
    Describe = 11,
    Inspect = 12,
    Status = 13,
    Stop = 14,
    Position = 15,
    Map = 16,
    Inside = 17,
    Look = 18,
    Log = 19,
    Steal = 20,
    Patience = 21,
    Why = 22,
    File = 23,
});

places!(FromDaemon {
    Welcome = 0,
    Refused = 1,
    Granted = 2,
    Unavailable = 3,
    Failed = 4,
    Lost = 5,
    Snapshot = 6,
    QueryFailed = 7,
    Inspection = 8,
    Status = 9,
    Settled = 10,
    Term = 11,
    Stopping = 12,
    Position = 13,
    Register = 14,
    Mapped = 15,
    LookBegins = 16,
    LookEvents = 17,
    LookComplete = 18,
    Logs = 19,
    Deadlock = 20,
    Stolen = 21,
    Recovering = 22,
    File = 23,
});

fn assert_places<M: Tested>(messages: &[M]) {
    let mut seen = std::collections::BTreeSet::new();
    for message in messages {
        let bytes = encode_all(std::slice::from_ref(message));
        assert_eq!(bytes[M::AT], message.inner().place(), "{message:?}");
        seen.insert(message.inner().place());
    }
    assert_eq!(seen.len(), M::Inner::PLACES, "there is no message of some variant");
}

/// Frames of all messages, one after the other.
fn encode_all<M: Tested>(messages: &[M]) -> BytesMut {
    let mut bytes = BytesMut::new();
    for message in messages {
        message.encode(&mut bytes).unwrap();
    }
    bytes
}

fn assert_round_trip<M: Tested>(messages: &[M]) {
    // A byte at a time, so that every frame is seen in every stage of its arrival.
    let (mut arrived, mut heard) = (BytesMut::new(), Vec::<M>::new());
    for byte in encode_all(messages) {
        arrived.extend_from_slice(&[byte]);
        heard.extend(decode::<M>(&mut arrived).unwrap());
    }
    // Times of events are not sent, so messages with events are compared as they are sent.
    for (heard, message) in heard.iter().zip(messages) {
        let [one, other] = [heard, message].map(|it| encode_all(std::slice::from_ref(it)));
        assert!(heard == message || one == other, "{heard:?}");
    }
    assert_eq!(heard.len(), messages.len());
    assert!(decode_last::<M>(&mut arrived).unwrap().is_none());
}

fn frame(content: &[u8]) -> BytesMut {
    let length = u32::try_from(content.len()).unwrap();
    BytesMut::from(&[&length.to_be_bytes(), content].concat()[..])
}

#[test]
fn every_variant_keeps_its_place() {
    assert_places(&all_sent());
    assert_places(&all_from_daemon());
}

#[test]
fn every_message_comes_back_as_it_was() {
    assert_round_trip(&all_sent());
    assert_round_trip(&[Sent { at: u64::MAX, message: ToDaemon::Stop }]);
    assert_round_trip(&all_from_daemon());
}

#[test]
fn the_longest_name_passes_and_a_longer_one_is_refused() {
    let ask = |length: usize| ToDaemon::Request {
        agent: 0,
        request: request(),
        name: "n".repeat(length).try_into().unwrap(),
        kind: RequestKind::Steal,
        slot: None,
    };
    let look = |length: usize| {
        let name = Some("n".repeat(length).try_into().unwrap());
        ToDaemon::Look { bucket: None, name, follow: false }
    };
    assert_round_trip_whole(&sent(ask(MAX_NAME)));
    assert_round_trip_whole(&sent(look(MAX_NAME)));
    for longer in [ask(MAX_NAME + 1), look(MAX_NAME + 1)] {
        let mut bytes = encode_all(&[sent(longer)]);
        let heard = decode::<Sent>(&mut bytes);
        assert!(matches!(heard, Err(CodecError::Malformed(_))));
    }
}

fn assert_round_trip_whole(message: &Sent) {
    let mut bytes = encode_all(std::slice::from_ref(message));
    assert_eq!(decode::<Sent>(&mut bytes).unwrap().as_ref(), Some(message));
}

#[test]
fn a_reserved_name_and_one_that_is_no_wtf8_are_refused() {
    let good = sent(ToDaemon::Request {
        agent: 0,
        request: RequestId::from_parts(0, 0),
        name: "name".try_into().unwrap(),
        kind: RequestKind::Steal,
        slot: None,
    });
    for bad in [b"-ame", b"\xFFame"] {
        let mut bytes = encode_all(std::slice::from_ref(&good));
        let at = bytes.windows(4).position(|window| window == b"name").unwrap();
        bytes[at..at + 4].copy_from_slice(bad);
        assert!(matches!(decode::<Sent>(&mut bytes), Err(CodecError::Malformed(_))));
    }
}

#[test]
fn garbage_is_malformed() {
    for garbage in [&b"\xFF\xFF\xFF"[..], b"", b"GET / HTTP/1.1"] {
        let heard = decode::<Sent>(&mut frame(garbage));
        assert!(matches!(heard, Err(CodecError::Malformed(_))), "{heard:?}");
    }
}

#[test]
fn the_cause_of_a_codec_error_is_its_source_and_stands_in_its_text() {
    let causes = [
        decode::<Sent>(&mut frame(b"")).unwrap_err(),
        append(&Unencodable, &mut BytesMut::new()).unwrap_err(),
    ];
    assert!(
        matches!(&causes, [CodecError::Malformed(_), CodecError::Unencodable(_)]),
        "{causes:?}"
    );
    for error in causes {
        let cause = error.source().and_then(|cause| cause.downcast_ref::<postcard::Error>());
        assert!(error.to_string().ends_with(&cause.unwrap().to_string()), "{error}");
    }
}

/// A message that postcard refuses to encode.
struct Unencodable;

impl Serialize for Unencodable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no"))
    }
}

#[test]
fn a_frame_longer_than_allowed_is_refused_by_its_length_alone() {
    let mut bytes = BytesMut::from(&u32::try_from(MAX_FRAME + 1).unwrap().to_be_bytes()[..]);
    assert!(matches!(decode::<Sent>(&mut bytes), Err(CodecError::TooLong)));
}

#[test]
fn a_message_that_does_not_fit_into_a_frame_is_not_sent() {
    let message = FromDaemon::Refused { reason: "x".repeat(MAX_FRAME) };
    let mut bytes = BytesMut::new();
    let sent = encode(&message, &mut bytes);
    assert!(matches!(sent, Err(CodecError::TooLong)));
    assert!(bytes.is_empty());
}

#[test]
fn a_message_that_just_fits_is_sent_and_one_byte_more_is_not() {
    // Before the text stand its variant and its length, one byte and four.
    let refused = |content: usize| FromDaemon::Refused { reason: "x".repeat(content - 5) };
    let mut bytes = encode_all(&[refused(MAX_FRAME)]);
    assert_eq!(bytes.len(), LENGTH + MAX_FRAME);
    let before = bytes.clone();
    let sent = encode(&refused(MAX_FRAME + 1), &mut bytes);
    assert!(matches!(sent, Err(CodecError::TooLong)));
    assert!(bytes == before, "what was there before has changed");
    assert_eq!(decode::<FromDaemon>(&mut bytes).unwrap(), Some(refused(MAX_FRAME)));
}

#[test]
fn a_buffer_that_grew_for_a_long_frame_is_small_again_behind_it() {
    let long = FromDaemon::Refused { reason: "x".repeat(MAX_FRAME - 5) };
    let short = FromDaemon::Welcome { version: 1, reach: None };
    let mut bytes = encode_all(&[long.clone(), short.clone()]);
    assert_eq!(decode::<FromDaemon>(&mut bytes).unwrap(), Some(long));
    assert!(bytes.capacity() <= BUFFER);
    assert_eq!(decode_last::<FromDaemon>(&mut bytes).unwrap(), Some(short));
}

#[test]
fn a_stream_that_ends_within_a_frame_is_truncated() {
    let whole = encode_all(&all_sent()[1..2]);
    for length in 1..whole.len() {
        let mut part = BytesMut::from(&whole[..length]);
        let heard = decode_last::<Sent>(&mut part);
        assert!(matches!(heard, Err(CodecError::Truncated)), "{length}: {heard:?}");
    }
}

#[test]
fn only_the_messages_of_the_beginning_may_have_grown() {
    let grown = |message: &Sent| {
        let content = [postcard::to_allocvec(message).unwrap(), vec![1, 2, 3]].concat();
        decode::<Sent>(&mut frame(&content))
    };
    let hello = sent(ToDaemon::Hello { oldest: 1, newest: 2 });
    assert_eq!(grown(&hello).unwrap(), Some(hello));
    for message in &all_sent()[1..] {
        assert!(matches!(grown(message), Err(CodecError::TrailingBytes)), "{message:?}");
    }
    let first = [
        FromDaemon::Welcome { version: 1, reach: None },
        FromDaemon::Welcome { version: 1, reach: Some("etcd".to_owned()) },
        FromDaemon::Refused { reason: "no".to_owned() },
    ];
    for message in first {
        let content = [postcard::to_allocvec(&message).unwrap(), vec![1, 2, 3]].concat();
        let heard = decode::<FromDaemon>(&mut frame(&content));
        assert_eq!(heard.unwrap(), Some(message));
    }
}
