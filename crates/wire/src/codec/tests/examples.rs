//! A message of each variant, by subject.

use std::time::{Duration, Instant, SystemTime};

use navlock_core::{
    AgentInfo, ClientId, Inspected, LockInfo, Lost, Position,
    look::{Agent, Change, Client, ClientState, Entry, LockId, LockName, Silence},
};
use navlock_engine::{FencingToken, Mode, Patience, RequestId, RequestKind, ResourceName};

use crate::{
    BootTime, Failure, FileTask, FromDaemon, LogState, LookEvent, NotStolen, Numbers, SessionEnd,
    Status, TermBounds, ToDaemon, Waits,
};

pub(super) fn request() -> RequestId {
    RequestId::from_parts(u32::MAX, u64::MAX)
}

pub(super) fn lone_surrogate() -> ResourceName {
    ResourceName::from_utf16(&[0x64, 0xD800]).unwrap()
}

/// What a client says of requests and locks.
pub(super) fn locks_to_daemon() -> Vec<ToDaemon> {
    let ask = |kind| ToDaemon::Request {
        agent: 7,
        request: request(),
        name: lone_surrogate(),
        kind,
        slot: None,
    };
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
        ToDaemon::Query { query: u64::MAX, bucket: "".into() },
    ]
}

/// What a daemon says of requests and locks.
pub(super) fn locks_from_daemon() -> Vec<FromDaemon> {
    let request = request();
    let mut all = vec![
        FromDaemon::Welcome { version: 1, reach: None },
        FromDaemon::Refused { reason: "too old".to_owned() },
        FromDaemon::Granted { request, token: FencingToken::new(u64::MAX), in_slot: false },
        FromDaemon::Unavailable { request },
        FromDaemon::Snapshot {
            query: 1,
            held: vec![lock(Mode::Exclusive)],
            pending: vec![lock(Mode::Shared), lock(Mode::Exclusive)],
            last: true,
        },
    ];
    let why = || "no".to_owned();
    for failure in [
        Failure::Terminated,
        Failure::Closed,
        Failure::Other(why()),
        Failure::Refused(why()),
        Failure::Lost(Lost::Stolen),
    ] {
        all.push(FromDaemon::Failed { request, failure: failure.clone() });
        all.push(FromDaemon::QueryFailed { query: 2, failure });
    }
    for how in [Lost::Stolen, Lost::Terminated, Lost::Closed, Lost::Disconnected] {
        all.push(FromDaemon::Lost { request, how: (how, None) });
    }
    all
}

pub(super) fn all_to_daemon() -> Vec<ToDaemon> {
    let mut all = locks_to_daemon();
    all.extend(claims_to_daemon());
    all.extend(terms_and_control_to_daemon());
    all.extend(owning_to_daemon());
    all.extend(looking_to_daemon());
    all
}

/// What a client says of terms, and of the daemon itself.
pub(super) fn terms_and_control_to_daemon() -> Vec<ToDaemon> {
    vec![
        ToDaemon::Stop,
        ToDaemon::Position {
            query: 6,
            bucket: "web".into(),
            name: lone_surrogate(),
            client_id: [0xA5; 16],
        },
    ]
}

/// What a client says of names that it owns.
pub(super) fn owning_to_daemon() -> Vec<ToDaemon> {
    let ask = |kind, slot| ToDaemon::Request {
        agent: 7,
        request: request(),
        name: lone_surrogate(),
        kind,
        slot: Some(slot),
    };
    vec![
        ToDaemon::Map { nonce: u64::MAX },
        ask(RequestKind::Wait(Mode::Exclusive), 0),
        ask(RequestKind::IfAvailable(Mode::Shared), 1022),
        ask(RequestKind::Steal, u32::MAX),
    ]
}

/// What a client says to come back, and of its agents.
pub(super) fn claims_to_daemon() -> Vec<ToDaemon> {
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
    let inspect = |name| ToDaemon::Inspect { query: 3, bucket: "web".into(), name };
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

pub(super) fn all_from_daemon() -> Vec<FromDaemon> {
    let mut all = locks_from_daemon();
    all.extend(claims_from_daemon());
    all.extend(terms_and_control_from_daemon());
    all.extend(owning_from_daemon());
    all.extend(looking_from_daemon());
    all
}

/// What a daemon says to those who look, and to those who steal.
pub(super) fn looking_from_daemon() -> Vec<FromDaemon> {
    let (now, agent) = (Instant::now(), client_id(3));
    let (name, id) = (LockName::new("web", lone_surrogate()), lock_id(3, u64::MAX));
    let entry = |inside| {
        let mut entry = Entry::new(id, Mode::Shared);
        (entry.since, entry.token, entry.taken) = (now, Some(FencingToken::new(u64::MAX)), 7);
        (entry.inside, entry.patience) = (inside, Patience::MayGiveUp);
        entry.why = Some("backup".into());
        entry
    };
    let came = |state| Change::ClientCame { client: 1, details: Client::new(4711, state) };
    let changes = [
        came(ClientState::Connected),
        came(ClientState::Orphaned),
        came(ClientState::Sleeping),
        Change::ClientWent { client: u64::MAX },
        Change::AgentCame { agent, details: Agent::new("web".into(), info().into(), Some(1)) },
        Change::AgentWent { agent },
        Change::AgentSilent { agent, silence: Silence::new(now, now + Duration::from_secs(60)) },
        Change::LeftOut { count: u64::MAX },
        Change::Requested { name: name.clone(), entry: entry(Vec::new()) },
        Change::Granted { name: name.clone(), entry: entry(vec![lock_id(4, 0), id]) },
        Change::Unavailable { name: name.clone(), agent },
        Change::Released { name: name.clone(), id },
        Change::Aborted { name: name.clone(), id },
        Change::Lost { name: name.clone(), id, how: Lost::Stolen, by: Some(client_id(4)) },
        Change::Owned { name: name.clone(), entry: entry(Vec::new()), held: true },
        Change::Recalled { name, id },
        Change::Recovered,
    ];
    let events = changes.into_iter().map(|change| LookEvent { at: u64::MAX, change }).collect();
    vec![
        FromDaemon::LookBegins { missed: u64::MAX, pids: Some(4_026_531_836) },
        FromDaemon::LookBegins { missed: 0, pids: None },
        FromDaemon::LookEvents { events },
        FromDaemon::LookComplete,
        FromDaemon::Logs { query: 3, outcome: Ok("debug".to_owned()) },
        FromDaemon::Logs { query: 3, outcome: Err("no level".to_owned()) },
        FromDaemon::Deadlock { request: request(), told: "they wait".to_owned(), gives_way: true },
        FromDaemon::Stolen { query: 3, outcome: Ok(2) },
        FromDaemon::Stolen { query: 3, outcome: Err(NotStolen::Free) },
        FromDaemon::Stolen { query: 3, outcome: Err(NotStolen::HeldByOthers) },
        FromDaemon::Stolen { query: 3, outcome: Err(NotStolen::Refused("etcd".to_owned())) },
        FromDaemon::Stolen { query: 3, outcome: Err(NotStolen::Unknown("etcd".to_owned())) },
        FromDaemon::Recovering,
        FromDaemon::File { outcome: Ok(()) },
        FromDaemon::File { outcome: Err("no room".to_owned()) },
    ]
}

/// What a client says to look, and to steal.
pub(super) fn looking_to_daemon() -> Vec<ToDaemon> {
    let token = FencingToken::new;
    vec![
        ToDaemon::Inside { request: request(), lock: lock_id(3, u64::MAX) },
        ToDaemon::Patience { request: request(), patience: Patience::GivesWay },
        ToDaemon::Why { request: request(), why: "backup".to_owned() },
        ToDaemon::File { client: [7; 16], task: FileTask::Own },
        ToDaemon::File { client: [7; 16], task: FileTask::Reserve },
        ToDaemon::File { client: [7; 16], task: FileTask::Inherit { claims: vec![0, 1, 2] } },
        ToDaemon::File { client: [7; 16], task: FileTask::Revoke },
        ToDaemon::Look { bucket: None, name: None, follow: false },
        ToDaemon::Look {
            bucket: Some("web".to_owned()),
            name: Some(lone_surrogate()),
            follow: true,
        },
        ToDaemon::Log { query: u64::MAX, filter: "info,navlock::etcd=debug".to_owned() },
        ToDaemon::Steal {
            query: 3,
            bucket: "web".to_owned(),
            name: lone_surrogate(),
            from: vec![(lock_id(3, u64::MAX), token(u64::MAX)), (lock_id(4, 0), token(0))],
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

pub(super) fn status() -> Status {
    let waits = Waits {
        bounds: vec![(Duration::from_micros(1), 7), (Duration::MAX, u64::MAX)],
        longer: 1,
        sum: Duration::MAX,
    };
    Status {
        pid: 4711,
        release: "0.2.0".to_owned(),
        age: 86_400_000,
        reach: Some("etcd at 10.0.0.1:2379, namespace navlock".to_owned()),
        details: vec![("nice".to_owned(), "10".to_owned()), (String::new(), String::new())],
        numbers: Numbers { clients: 3, requests: u64::MAX, waits, ..Numbers::default() },
        ends: vec![
            SessionEnd {
                at: SystemTime::UNIX_EPOCH,
                pid: Some(4711),
                why: "it made no sense".to_owned(),
            },
            SessionEnd { at: SystemTime::UNIX_EPOCH, pid: None, why: String::new() },
        ],
        log: Some(LogState { file: Some("/tmp/log".to_owned()), filter: "warn".to_owned() }),
        pid_namespace: Some(4_026_531_836),
    }
}

/// What a daemon says of owned names.
pub(super) fn owning_from_daemon() -> Vec<FromDaemon> {
    vec![
        FromDaemon::Mapped { nonce: 1, epoch: u64::MAX },
        FromDaemon::Granted {
            request: request(),
            token: FencingToken::new(u64::MAX),
            in_slot: true,
        },
    ]
}

/// What a daemon says of terms, and of itself.
pub(super) fn terms_and_control_from_daemon() -> Vec<FromDaemon> {
    let holder = inspected(Some(Duration::from_millis(1500)), Some(u64::MAX));
    vec![
        FromDaemon::Welcome {
            version: 1,
            reach: Some("etcd at 10.0.0.1:2379, namespace navlock".to_owned()),
        },
        FromDaemon::Term {
            agent: u32::MAX,
            ends: BootTime(u64::MAX),
            bounds: Some(TermBounds {
                heard: BootTime(1),
                due: BootTime(u64::MAX),
                expires: BootTime(u64::MAX),
            }),
        },
        FromDaemon::Term { agent: 0, ends: BootTime(0), bounds: None },
        FromDaemon::Stopping,
        FromDaemon::Position { query: 6, position: Position::default() },
        FromDaemon::Position {
            query: 6,
            position: Position::new(Some(holder), 2, Some(usize::MAX)),
        },
        FromDaemon::Lost { request: request(), how: (Lost::Reset, None) },
        FromDaemon::Register,
        FromDaemon::Lost { request: request(), how: (Lost::Removed, None) },
        FromDaemon::Lost { request: request(), how: (Lost::Stolen, Some(client_id(7))) },
    ]
}

/// What a daemon says to inspections, and after claims.
pub(super) fn claims_from_daemon() -> Vec<FromDaemon> {
    vec![
        FromDaemon::Inspection {
            query: 3,
            held: vec![inspected(Some(Duration::MAX), Some(1)), inspected(None, None)],
            pending: vec![inspected(Some(Duration::ZERO), None)],
            owned: vec![inspected(None, None)],
            left_out: u64::MAX,
            last: false,
        },
        FromDaemon::Inspection {
            query: 3,
            held: Vec::new(),
            pending: Vec::new(),
            owned: Vec::new(),
            left_out: 0,
            last: true,
        },
        FromDaemon::Status { query: 4, status: status() },
        FromDaemon::Settled,
    ]
}

pub(super) fn info() -> AgentInfo {
    let mut info = AgentInfo::default()
        .pid(4711)
        .command("make -j2")
        .user("ada")
        .host("engine")
        .why("to build")
        .meta("url", "http://localhost:3000");
    info.keeper = 4710;
    info
}

fn inspected(age: Option<Duration>, token: Option<u64>) -> Inspected {
    let mut inspected = Inspected::new(lock(Mode::Shared));
    (inspected.age, inspected.fencing_token) = (age, token.map(FencingToken::new));
    inspected.taken = 7;
    inspected.agent = token.map(|_| info().into());
    inspected
}

fn lock_id(agent: u8, serial: u64) -> LockId {
    LockId { client_id: client_id(agent), serial }
}

fn client_id(byte: u8) -> ClientId {
    ClientId::from_bytes([byte; 16])
}

fn lock(mode: Mode) -> LockInfo {
    LockInfo::new(lone_surrogate(), mode, client_id(3))
}
