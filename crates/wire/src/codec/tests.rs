use navlock_engine::{FencingToken, Mode, RequestId, RequestKind, ResourceName};
use proptest::prelude::*;

use super::*;
use crate::{Failure, Lost, MAX_NAME, SnapshotEntry};

fn request() -> RequestId {
    RequestId::from_parts(u32::MAX, u64::MAX)
}

fn lone_surrogate() -> ResourceName {
    ResourceName::from_utf16(&[0x64, 0xD800]).unwrap()
}

fn all_to_daemon() -> Vec<ToDaemon> {
    let ask =
        |kind| ToDaemon::Request { agent: 7, request: request(), name: lone_surrogate(), kind };
    vec![
        ToDaemon::Hello { oldest: 1, newest: 9 },
        ToDaemon::OpenAgent { agent: 7, client_id: [0xA5; 16], bucket: "web".to_owned() },
        ToDaemon::CloseAgent { agent: u32::MAX },
        ToDaemon::Terminate { agent: 0 },
        ask(RequestKind::Wait(Mode::Exclusive)),
        ask(RequestKind::Wait(Mode::Shared)),
        ask(RequestKind::IfAvailable(Mode::Exclusive)),
        ask(RequestKind::IfAvailable(Mode::Shared)),
        ask(RequestKind::Steal),
        ToDaemon::Finish { request: request() },
        ToDaemon::Query { query: u64::MAX, bucket: String::new() },
    ]
}

fn all_from_daemon() -> Vec<FromDaemon> {
    let request = request();
    let entry = |mode| SnapshotEntry { name: lone_surrogate(), mode, client_id: [3; 16] };
    let mut all = vec![
        FromDaemon::Welcome { version: 1 },
        FromDaemon::Refused { reason: "too old".to_owned() },
        FromDaemon::Granted { request, token: FencingToken::new(u64::MAX) },
        FromDaemon::Unavailable { request },
        FromDaemon::Snapshot {
            query: 1,
            held: vec![entry(Mode::Exclusive)],
            pending: vec![entry(Mode::Shared), entry(Mode::Exclusive)],
            last: true,
        },
    ];
    let why = || "no".to_owned();
    for failure in
        [Failure::Terminated, Failure::Closed, Failure::Other(why()), Failure::Refused(why())]
    {
        all.push(FromDaemon::Failed { request, failure: failure.clone() });
        all.push(FromDaemon::QueryFailed { query: 2, failure });
    }
    for how in [Lost::Stolen, Lost::Terminated, Lost::Closed, Lost::Disconnected] {
        all.push(FromDaemon::Lost { request, how });
    }
    all
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
fn every_message_comes_back_as_it_was() {
    assert_round_trip(&all_to_daemon());
    assert_round_trip(&all_from_daemon());
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
    assert!(matches!(grown(&ToDaemon::Terminate { agent: 1 }), Err(CodecError::Malformed)));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = DaemonCodec::default().decode_eof(&mut BytesMut::from(&bytes[..]));
        let _ = DaemonCodec::default().decode(&mut frame(&bytes));
        let _ = ClientCodec::default().decode(&mut frame(&bytes));
    }

    #[test]
    fn no_damage_makes_it_panic(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        fn hear_damaged<M: Message>(messages: &[M], at: prop::sample::Index, byte: u8) {
            let mut bytes = encode_all(messages);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let mut codec = Codec::<M>::default();
            while let Ok(Some(_)) = codec.decode_eof(&mut bytes) {}
        }
        hear_damaged(&all_to_daemon(), at, byte);
        hear_damaged(&all_from_daemon(), at, byte);
    }
}
