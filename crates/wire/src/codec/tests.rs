mod corpus;
mod examples;
mod version_1;
mod version_2;
mod version_4;

use navlock_engine::{RequestId, RequestKind};

use self::examples::*;
use super::*;
use crate::{LookEvent, MAX_NAME, look_frame::encode_look_events};

/// The place of a message's variant in its enum, by which postcard knows it. No place may change.
///
/// The matches are without a rest, so that a new variant cannot be forgotten here.
trait Place {
    const PLACES: u8;
    fn place(&self) -> u8;
}

impl Place for ToDaemon {
    const PLACES: u8 = 26;
    fn place(&self) -> u8 {
        match self {
            Self::Hello { .. } => 0,
            Self::OpenAgent { .. } => 1,
            Self::CloseAgent { .. } => 2,
            Self::Terminate { .. } => 3,
            Self::Request { .. } => 4,
            Self::Finish { .. } => 5,
            Self::Query { .. } => 6,
            Self::Introduce { .. } => 7,
            Self::ClaimLock { .. } => 8,
            Self::ClaimRequest { .. } => 9,
            Self::Claimed => 10,
            Self::Describe { .. } => 11,
            Self::Inspect { .. } => 12,
            Self::Status { .. } => 13,
            Self::Details { .. } => 14,
            Self::Stop => 15,
            Self::Position { .. } => 16,
            Self::Map { .. } => 17,
            Self::RequestInSlot { .. } => 18,
            Self::Annotate { .. } => 19,
            Self::Inside { .. } => 20,
            Self::Look { .. } => 21,
            Self::Report { .. } => 22,
            Self::Log { .. } => 23,
            Self::Steal { .. } => 24,
            Self::MayGiveUp { .. } => 25,
        }
    }
}

impl Place for FromDaemon {
    const PLACES: u8 = 31;
    fn place(&self) -> u8 {
        match self {
            Self::Welcome { .. } => 0,
            Self::Refused { .. } => 1,
            Self::Granted { .. } => 2,
            Self::Unavailable { .. } => 3,
            Self::Failed { .. } => 4,
            Self::Lost { .. } => 5,
            Self::Snapshot { .. } => 6,
            Self::QueryFailed { .. } => 7,
            Self::Inspection { .. } => 8,
            Self::Status { .. } => 9,
            Self::Settled => 10,
            Self::WelcomeShared { .. } => 11,
            Self::Term { .. } => 12,
            Self::Details { .. } => 13,
            Self::Stopping => 14,
            Self::Position { .. } => 15,
            Self::TermBounds { .. } => 16,
            Self::Register => 17,
            Self::Mapped { .. } => 18,
            Self::GrantedInSlot { .. } => 19,
            Self::Owned { .. } => 20,
            Self::LookBegins { .. } => 21,
            Self::LookEvents { .. } => 22,
            Self::LookComplete => 23,
            Self::Annotated { .. } => 24,
            Self::Report { .. } => 25,
            Self::Logs { .. } => 26,
            Self::Deadlock { .. } => 27,
            Self::Stolen { .. } => 28,
            Self::Recovering => 29,
            Self::LeftOut { .. } => 30,
        }
    }
}

fn assert_places<M: Message + Place + fmt::Debug>(messages: &[M]) {
    let mut seen = std::collections::BTreeSet::new();
    for message in messages {
        let bytes = encode_all(std::slice::from_ref(message));
        assert_eq!(bytes[LENGTH], message.place(), "{message:?}");
        seen.insert(message.place());
    }
    assert!(seen.into_iter().eq(0..M::PLACES), "there is no message of some variant");
}

/// Frames of all messages, one after the other.
fn encode_all<M: Message>(messages: &[M]) -> BytesMut {
    let mut bytes = BytesMut::new();
    for message in messages {
        Codec::<M>::default().encode(message, &mut bytes).unwrap();
    }
    bytes
}

fn assert_round_trip<M: Message + PartialEq + fmt::Debug>(messages: &[M]) {
    // A byte at a time, so that every frame is seen in every stage of its arrival.
    let (mut codec, mut arrived, mut heard) = (Codec::<M>::default(), BytesMut::new(), Vec::new());
    for byte in encode_all(messages) {
        arrived.extend_from_slice(&[byte]);
        heard.extend(codec.decode(&mut arrived).unwrap());
    }
    assert_eq!(heard, messages);
    assert!(codec.decode_eof(&mut arrived).unwrap().is_none());
}

fn frame(content: &[u8]) -> BytesMut {
    let length = u32::try_from(content.len()).unwrap();
    BytesMut::from(&[&length.to_be_bytes(), content].concat()[..])
}

#[test]
fn every_variant_keeps_its_place() {
    assert_places(&all_to_daemon());
    assert_places(&all_from_daemon());
}

#[test]
fn every_message_comes_back_as_it_was() {
    assert_round_trip(&all_to_daemon());
    assert_round_trip(&all_from_daemon());
}

#[test]
fn events_that_were_encoded_one_by_one_are_the_same_message() {
    let all: Vec<LookEvent> = version_6_from_daemon()
        .into_iter()
        .find_map(|message| match message {
            FromDaemon::LookEvents { events } => Some(events),
            _ => None,
        })
        .unwrap();
    // As many as take one byte to be counted, and two.
    for count in [0, 1, all.len(), 127, 128, 1000] {
        let events: Vec<LookEvent> = all.iter().cycle().take(count).cloned().collect();
        let (mut encoded, mut bytes) = (BytesMut::new(), BytesMut::new());
        for event in &events {
            event.encode(&mut encoded).unwrap();
        }
        let (one, other) = encoded.split_at(encoded.len() / 3);
        encode_look_events(count, [one, other], &mut bytes).unwrap();
        let message = FromDaemon::LookEvents { events };
        assert_eq!(bytes, encode_all(std::slice::from_ref(&message)));
        assert_eq!(ClientCodec::default().decode(&mut bytes).unwrap(), Some(message));
    }
}

#[test]
fn events_that_do_not_fit_into_a_frame_together_are_not_sent() {
    let mut bytes = BytesMut::from("before");
    let long = vec![0; MAX_FRAME];
    let done = encode_look_events(1, [&*long], &mut bytes);
    assert!(matches!(done, Err(CodecError::TooLong)), "{done:?}");
    assert_eq!(bytes, "before");
}

#[test]
fn the_longest_name_passes_and_a_longer_one_is_refused() {
    let ask = |length: usize| ToDaemon::Request {
        agent: 0,
        request: request(),
        name: "n".repeat(length).try_into().unwrap(),
        kind: RequestKind::Steal,
    };
    assert_round_trip_whole(&ask(MAX_NAME));
    let mut bytes = encode_all(&[ask(MAX_NAME + 1)]);
    assert!(matches!(DaemonCodec::default().decode(&mut bytes), Err(CodecError::Malformed)));
}

fn assert_round_trip_whole(message: &ToDaemon) {
    let mut bytes = encode_all(std::slice::from_ref(message));
    assert_eq!(DaemonCodec::default().decode(&mut bytes).unwrap().as_ref(), Some(message));
}

#[test]
fn a_reserved_name_and_one_that_is_no_wtf8_are_refused() {
    let good = ToDaemon::Request {
        agent: 0,
        request: RequestId::from_parts(0, 0),
        name: "name".try_into().unwrap(),
        kind: RequestKind::Steal,
    };
    for bad in [b"-ame", b"\xFFame"] {
        let mut bytes = encode_all(std::slice::from_ref(&good));
        let at = bytes.windows(4).position(|window| window == b"name").unwrap();
        bytes[at..at + 4].copy_from_slice(bad);
        assert!(matches!(DaemonCodec::default().decode(&mut bytes), Err(CodecError::Malformed)));
    }
}

#[test]
fn garbage_is_malformed() {
    for garbage in [&b"\xFF\xFF\xFF"[..], b"", b"GET / HTTP/1.1"] {
        let heard = DaemonCodec::default().decode(&mut frame(garbage));
        assert!(matches!(heard, Err(CodecError::Malformed)), "{heard:?}");
    }
}

#[test]
fn a_frame_longer_than_allowed_is_refused_by_its_length_alone() {
    let mut bytes = BytesMut::from(&u32::try_from(MAX_FRAME + 1).unwrap().to_be_bytes()[..]);
    assert!(matches!(DaemonCodec::default().decode(&mut bytes), Err(CodecError::TooLong)));
}

#[test]
fn a_message_that_does_not_fit_into_a_frame_is_not_sent() {
    let message = FromDaemon::Refused { reason: "x".repeat(MAX_FRAME) };
    let mut bytes = BytesMut::new();
    let sent = DaemonCodec::default().encode(&message, &mut bytes);
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
    let sent = DaemonCodec::default().encode(&refused(MAX_FRAME + 1), &mut bytes);
    assert!(matches!(sent, Err(CodecError::TooLong)));
    assert!(bytes == before, "what was there before has changed");
    assert_eq!(ClientCodec::default().decode(&mut bytes).unwrap(), Some(refused(MAX_FRAME)));
}

#[test]
fn a_buffer_that_grew_for_a_long_frame_is_small_again_behind_it() {
    let long = FromDaemon::Refused { reason: "x".repeat(MAX_FRAME - 5) };
    let short = FromDaemon::Welcome { version: 1 };
    let mut bytes = encode_all(&[long.clone(), short.clone()]);
    assert_eq!(ClientCodec::default().decode(&mut bytes).unwrap(), Some(long));
    assert!(bytes.capacity() <= BUFFER);
    assert_eq!(ClientCodec::default().decode_eof(&mut bytes).unwrap(), Some(short));
}

#[test]
fn a_stream_that_ends_within_a_frame_is_truncated() {
    let whole = encode_all(&all_to_daemon()[1..2]);
    for length in 1..whole.len() {
        let mut part = BytesMut::from(&whole[..length]);
        let heard = DaemonCodec::default().decode_eof(&mut part);
        assert!(matches!(heard, Err(CodecError::Truncated)), "{length}: {heard:?}");
    }
}

#[test]
fn only_the_messages_of_the_beginning_may_have_grown() {
    let grown = |message: &ToDaemon| {
        let content = [postcard::to_allocvec(message).unwrap(), vec![1, 2, 3]].concat();
        DaemonCodec::default().decode(&mut frame(&content))
    };
    let hello = ToDaemon::Hello { oldest: 1, newest: 2 };
    assert_eq!(grown(&hello).unwrap(), Some(hello));
    for message in &all_to_daemon()[1..] {
        assert!(matches!(grown(message), Err(CodecError::Malformed)), "{message:?}");
    }
    let first = [
        FromDaemon::Welcome { version: 1 },
        FromDaemon::WelcomeShared { version: 3, reach: "etcd".to_owned() },
        FromDaemon::Refused { reason: "no".to_owned() },
    ];
    for message in first {
        let content = [postcard::to_allocvec(&message).unwrap(), vec![1, 2, 3]].concat();
        let heard = ClientCodec::default().decode(&mut frame(&content));
        assert_eq!(heard.unwrap(), Some(message));
    }
}
