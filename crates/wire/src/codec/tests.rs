use navlock_engine::{FencingToken, Mode, RequestId, RequestKind, ResourceName};

use super::*;
use crate::{
    AgentInfo, ClientState, Failure, InspectionEntry, LogState, LookChange, LookEntry, LookEvent,
    Lost, MAX_NAME, NotStolen, OfName, OwnedEntry, Report, SessionEnd, SnapshotEntry, Status,
    look_frame::encode_look_events,
};

mod corpus;
mod version_1;
mod version_2;
mod version_4;

fn request() -> RequestId {
    RequestId::from_parts(u32::MAX, u64::MAX)
}

fn lone_surrogate() -> ResourceName {
    ResourceName::from_utf16(&[0x64, 0xD800]).unwrap()
}

/// The messages of a client that speaks version 1, in all their kinds.
fn version_1_to_daemon() -> Vec<ToDaemon> {
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

/// The messages of a daemon that speaks version 1, in all their kinds.
fn version_1_from_daemon() -> Vec<FromDaemon> {
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

fn all_to_daemon() -> Vec<ToDaemon> {
    let mut all = version_1_to_daemon();
    all.extend(version_2_to_daemon());
    all.extend(version_4_to_daemon());
    all.extend(version_5_to_daemon());
    all.extend(version_6_to_daemon());
    all
}

/// What a client says besides since versions 3 and 4.
fn version_4_to_daemon() -> Vec<ToDaemon> {
    vec![
        ToDaemon::Details { query: u64::MAX },
        ToDaemon::Stop,
        ToDaemon::Position {
            query: 6,
            bucket: "web".to_owned(),
            name: lone_surrogate(),
            client_id: [0xA5; 16],
        },
    ]
}

/// What a client says besides since version 5.
fn version_5_to_daemon() -> Vec<ToDaemon> {
    let ask = |kind, slot| ToDaemon::RequestInSlot {
        agent: 7,
        request: request(),
        name: lone_surrogate(),
        kind,
        slot,
    };
    vec![
        ToDaemon::Map { nonce: u64::MAX },
        ask(RequestKind::Wait(Mode::Exclusive), 0),
        ask(RequestKind::IfAvailable(Mode::Shared), 1022),
        ask(RequestKind::Steal, u32::MAX),
    ]
}

/// What a client says besides since version 2.
fn version_2_to_daemon() -> Vec<ToDaemon> {
    let (request, name, since) = (request(), lone_surrogate(), u64::MAX);
    let claim_lock = |mode| ToDaemon::ClaimLock {
        agent: 7,
        request,
        name: name.clone(),
        mode,
        token: FencingToken::new(1_763_697_000_000_000_000),
        since,
    };
    let claim_request =
        |kind| ToDaemon::ClaimRequest { agent: 7, request, name: name.clone(), kind, since };
    let inspect = |name| ToDaemon::Inspect { query: 3, bucket: "web".to_owned(), name };
    vec![
        ToDaemon::Introduce { client: [0x5A; 16], returning: false },
        ToDaemon::Introduce { client: [0; 16], returning: true },
        claim_lock(Mode::Exclusive),
        claim_lock(Mode::Shared),
        claim_request(RequestKind::Wait(Mode::Exclusive)),
        claim_request(RequestKind::IfAvailable(Mode::Shared)),
        claim_request(RequestKind::Steal),
        ToDaemon::Claimed,
        ToDaemon::Describe { agent: 7, info: info() },
        ToDaemon::Describe { agent: 0, info: AgentInfo::default() },
        inspect(None),
        inspect(Some(name.clone())),
        ToDaemon::Status { query: 4 },
    ]
}

fn all_from_daemon() -> Vec<FromDaemon> {
    let mut all = version_1_from_daemon();
    all.extend(version_2_from_daemon());
    all.extend(version_4_from_daemon());
    all.extend(version_5_from_daemon());
    all.extend(version_6_from_daemon());
    all
}

/// What a daemon says besides since version 6.
fn version_6_from_daemon() -> Vec<FromDaemon> {
    let of = || OfName { bucket: "web".into(), name: lone_surrogate() };
    let id = ([3; 16], u64::MAX);
    let entry = |inside| LookEntry {
        id,
        mode: Mode::Shared,
        token: Some(u64::MAX),
        inside,
        may_give_up: true,
        taken: 7,
    };
    let came = |state| LookChange::ClientCame { client: 1, pid: 4711, state };
    let changes = [
        came(ClientState::Connected),
        came(ClientState::Orphaned),
        came(ClientState::Sleeping),
        LookChange::ClientWent { client: u64::MAX },
        LookChange::AgentCame {
            agent: [3; 16],
            bucket: "web".into(),
            info: info(),
            meta: vec![("url".to_owned(), "http://localhost:3000".to_owned())],
            client: Some(1),
        },
        LookChange::AgentWent { agent: [3; 16] },
        LookChange::AgentSilent { agent: [3; 16], ends: u64::MAX },
        LookChange::LeftOut { count: u64::MAX },
        LookChange::Requested(of(), entry(Vec::new())),
        LookChange::Granted(of(), entry(vec![([4; 16], 0), id])),
        LookChange::Unavailable(of(), [3; 16]),
        LookChange::Released(of(), id),
        LookChange::Aborted(of(), id),
        LookChange::Lost(of(), id, Lost::StolenBy([4; 16])),
        LookChange::Owned(of(), entry(Vec::new()), true),
        LookChange::Recalled(of(), id),
        LookChange::Recovered,
    ];
    let events = changes.into_iter().map(|change| LookEvent { at: u64::MAX, change }).collect();
    vec![
        FromDaemon::LookBegins { missed: u64::MAX, pids: Some(4_026_531_836) },
        FromDaemon::LookBegins { missed: 0, pids: None },
        FromDaemon::LookEvents { events },
        FromDaemon::LookComplete,
        FromDaemon::Annotated {
            query: 3,
            agents: vec![([3; 16], vec![("k".to_owned(), String::new())]), ([4; 16], Vec::new())],
        },
        FromDaemon::Report { query: 3, report: Report::default() },
        FromDaemon::Report { query: 3, report: report() },
        FromDaemon::Logs { query: 3, outcome: Ok("debug".to_owned()) },
        FromDaemon::Logs { query: 3, outcome: Err("no level".to_owned()) },
        FromDaemon::Deadlock { request: request(), told: "they wait".to_owned(), is_last: true },
        FromDaemon::Stolen { query: 3, outcome: Ok(2) },
        FromDaemon::Stolen { query: 3, outcome: Err(NotStolen::Free) },
        FromDaemon::Stolen { query: 3, outcome: Err(NotStolen::HeldByOthers) },
        FromDaemon::Stolen { query: 3, outcome: Err(NotStolen::Refused("etcd".to_owned())) },
        FromDaemon::Stolen { query: 3, outcome: Err(NotStolen::Unknown("etcd".to_owned())) },
        FromDaemon::Recovering,
        FromDaemon::LeftOut { query: 3, count: u64::MAX },
    ]
}

/// What a client says besides since version 6.
fn version_6_to_daemon() -> Vec<ToDaemon> {
    vec![
        ToDaemon::Annotate { agent: 7, meta: vec![("url".to_owned(), "x".to_owned())] },
        ToDaemon::Inside { request: request(), lock: ([3; 16], u64::MAX) },
        ToDaemon::MayGiveUp { request: request() },
        ToDaemon::Look { bucket: None, name: None, follow: false },
        ToDaemon::Look {
            bucket: Some("web".to_owned()),
            name: Some(lone_surrogate()),
            follow: true,
        },
        ToDaemon::Report { query: 3 },
        ToDaemon::Log { query: u64::MAX, filter: "info,navlock::etcd=debug".to_owned() },
        ToDaemon::Steal {
            query: 3,
            bucket: "web".to_owned(),
            name: lone_surrogate(),
            from: vec![(([3; 16], u64::MAX), u64::MAX), (([4; 16], 0), 0)],
            info: info(),
        },
        ToDaemon::Steal {
            query: 0,
            bucket: String::new(),
            name: lone_surrogate(),
            from: Vec::new(),
            info: AgentInfo::default(),
        },
    ]
}

fn report() -> Report {
    Report {
        numbers: vec![("requests".to_owned(), u64::MAX), (String::new(), 0)],
        waits: vec![(1_000, 7), (u64::MAX, u64::MAX)],
        longer: 1,
        waited: u64::MAX,
        ends: vec![
            SessionEnd { ago: 12, pid: Some(4711), why: "it made no sense".to_owned() },
            SessionEnd { ago: u64::MAX, pid: None, why: String::new() },
        ],
        log: Some(LogState { file: Some("/tmp/log".to_owned()), filter: "warn".to_owned() }),
        pids: Some(4_026_531_836),
    }
}

/// What a daemon says besides since version 5.
fn version_5_from_daemon() -> Vec<FromDaemon> {
    let owned = |mode, age, taken| OwnedEntry {
        entry: SnapshotEntry { name: lone_surrogate(), mode, client_id: [3; 16] },
        age,
        taken,
    };
    vec![
        FromDaemon::Mapped { nonce: 1, epoch: u64::MAX },
        FromDaemon::GrantedInSlot { request: request(), token: FencingToken::new(u64::MAX) },
        FromDaemon::Owned {
            query: 3,
            agents: vec![([3; 16], info())],
            names: vec![owned(Mode::Exclusive, u64::MAX, 0), owned(Mode::Shared, 0, u64::MAX)],
        },
        FromDaemon::Owned { query: 3, agents: Vec::new(), names: Vec::new() },
    ]
}

/// What a daemon says besides since versions 3 and 4.
fn version_4_from_daemon() -> Vec<FromDaemon> {
    vec![
        FromDaemon::WelcomeShared {
            version: 3,
            reach: "etcd at 10.0.0.1:2379, namespace navlock".to_owned(),
        },
        FromDaemon::Term { agent: u32::MAX, ends: u64::MAX },
        FromDaemon::Term { agent: 0, ends: 0 },
        FromDaemon::Details {
            query: 5,
            details: vec![("nice".to_owned(), "10".to_owned()), (String::new(), String::new())],
        },
        FromDaemon::Details { query: 0, details: Vec::new() },
        FromDaemon::Stopping,
        FromDaemon::Position { query: 6, holder: None, agent: None, holders: 0, ahead: None },
        FromDaemon::Position {
            query: 6,
            holder: Some(InspectionEntry {
                entry: SnapshotEntry {
                    name: lone_surrogate(),
                    mode: Mode::Shared,
                    client_id: [3; 16],
                },
                age: Some(1500),
                token: Some(u64::MAX),
            }),
            agent: Some(info()),
            holders: 2,
            ahead: Some(u64::MAX),
        },
        FromDaemon::TermBounds { agent: 7, heard: 1, due: u64::MAX, expires: u64::MAX },
        FromDaemon::Lost { request: request(), how: Lost::Reset },
        FromDaemon::Register,
        FromDaemon::Lost { request: request(), how: Lost::Removed },
        FromDaemon::Lost { request: request(), how: Lost::StolenBy([7; 16]) },
    ]
}

/// What a daemon says besides since version 2.
fn version_2_from_daemon() -> Vec<FromDaemon> {
    let entry = |age, token| InspectionEntry {
        entry: SnapshotEntry { name: lone_surrogate(), mode: Mode::Shared, client_id: [3; 16] },
        age,
        token,
    };
    vec![
        FromDaemon::Inspection {
            query: 3,
            agents: vec![([3; 16], info()), ([4; 16], AgentInfo::default())],
            held: vec![entry(Some(u64::MAX), Some(1)), entry(None, None)],
            pending: vec![entry(Some(0), None)],
            last: false,
        },
        FromDaemon::Inspection {
            query: 3,
            agents: Vec::new(),
            held: Vec::new(),
            pending: Vec::new(),
            last: true,
        },
        FromDaemon::Status {
            query: 4,
            status: Status {
                pid: 4711,
                release: "0.2.0".to_owned(),
                age: 86_400_000,
                clients: 3,
                orphans: 1,
                held: 2,
                pending: 0,
            },
        },
        FromDaemon::Settled,
    ]
}

fn info() -> AgentInfo {
    AgentInfo {
        pid: 4711,
        command: "make -j2".to_owned(),
        user: "ada".to_owned(),
        host: "engine".to_owned(),
        why: "to build".to_owned(),
    }
}

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
