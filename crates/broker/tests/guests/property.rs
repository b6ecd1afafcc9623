//! What holds whatever another user sends: nobody loses a lock by it, gets one too early, or is told what is not for them.
//!
//! This is one file because the target `guests` in `fuzz/` includes it by its path.

use std::{
    fs::File,
    io::{ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    pin::pin,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Waker},
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::BytesMut;
use navlock_broker::{
    BrokerReach, ConnectOptions, Look, Place,
    daemon::{self, Options},
};
use navlock_core::{
    AgentInfo, FencingToken, LockManager, Mode, UserAgent,
    blocking::{block_on, block_on_timeout},
    host::RequestKind,
    look::{LockId, LookOptions},
};
use navlock_engine::{Patience, RequestId};
use navlock_platform::{clock, file::group_at, socket::receive_with_files};
use navlock_wire::{FileTask, FromDaemon, Sent, ToDaemon, VERSION, decode, encode};
use rustix::{
    fs::{FlockOperation, flock},
    process::{Gid, Uid},
    thread::{set_thread_gid, set_thread_groups, set_thread_uid},
};

/// How long anything may take that must happen, also if somebody comes late to a broker that recovers.
const LONG: Duration = Duration::from_secs(90);

/// How long a broker waits for those who do not come back. A client that is late loses its locks, on a busy machine too.
const RECOVERY_TIME: Duration = Duration::from_secs(20);

/// The user who means ill. The group is that of the place.
const ATTACKER: u32 = 61_002;

/// What the other users say of their locks, which the attacker must not be told.
const SECRET: &str = "what-nobody-else-may-read";

/// The names that the others have, and one that nobody has.
const NAMES: [&str; 3] = ["held", "free", "other"];

/// A name that nobody asks for.
const NEVER: &str = "never";

/// The bytes that decide what the attacker does.
struct Input<'a>(std::slice::Iter<'a, u8>);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.0.next().copied()
    }

    fn or_zero(&mut self) -> u8 {
        self.byte().unwrap_or_default()
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = self.or_zero() % 64;
        self.0.by_ref().take(length.into()).copied().collect()
    }
}

/// What the attacker knows of what it attacks, which is more than others are shown.
struct Target {
    lock: LockId,
    token: FencingToken,
}

/// A connection of the attacker.
struct Attacker {
    stream: UnixStream,
    received: BytesMut,
    files: Vec<File>,
}

impl Attacker {
    fn connect(place: &Place) -> Self {
        let stream = thread::scope(|scope| {
            let connect = scope.spawn(|| {
                set_thread_groups(&[]).expect("this is root");
                set_thread_gid(Gid::from_raw(0)).expect("this is root");
                set_thread_uid(Uid::from_raw(ATTACKER)).expect("this is root");
                UnixStream::connect(place.socket())
            });
            connect.join().expect("it does not panic").expect("the broker listens")
        });
        stream.set_nonblocking(true).expect("it is open");
        Self { stream, received: BytesMut::new(), files: Vec::new() }
    }

    /// A client as any other, with an agent. If its number is odd, it says that it was there before, and has these claims.
    fn client(place: &Place, number: u8, claims: &[ToDaemon]) -> Self {
        // The same clients come again.
        let mut client = [8 + number % 4; 16];
        client[..4].copy_from_slice(&ATTACKER.to_be_bytes());
        let hello = ToDaemon::Hello { oldest: VERSION, newest: VERSION };
        let mut attacker = Self::connect(place);
        for message in [&hello, &ToDaemon::File { client, task: FileTask::Own }] {
            attacker.say(clock::monotonic(), message);
        }
        attacker.until(|message| matches!(message, FromDaemon::File { .. }));
        let files = std::mem::take(&mut attacker.files);
        attacker = Self { files, ..Self::connect(place) };
        let introduce = ToDaemon::Introduce { client, returning: number & 1 == 1 };
        let open =
            ToDaemon::OpenAgent { agent: 0, client_id: [number; 16], bucket: "app".to_owned() };
        for message in [&hello, &introduce, &open].into_iter().chain(claims) {
            attacker.say(clock::monotonic(), message);
        }
        if number & 1 == 1 {
            attacker.say(clock::monotonic(), &ToDaemon::Claimed);
        } else {
            attacker.until(|message| matches!(message, FromDaemon::Settled));
        }
        attacker
    }

    fn stole_nothing(message: &FromDaemon) {
        if let FromDaemon::Stolen { outcome, .. } = message {
            assert!(outcome.is_err(), "the attacker has stolen what another user had");
        }
    }

    fn is_told_no_secret(&self) {
        let secret = SECRET.as_bytes();
        let is_told = self.received.windows(secret.len()).any(|window| window == secret);
        assert!(!is_told, "the attacker was told what a lock of another user is for");
    }

    /// Reads until the broker has said this, or has hung up. Returns whether it was said.
    fn until(&mut self, is_it: impl Fn(&FromDaemon) -> bool) -> bool {
        self.stream.set_nonblocking(false).expect("it is open");
        self.stream.set_read_timeout(Some(LONG)).expect("it is open");
        let mut bytes = [0; 4096];
        let mut is_said = false;
        while !is_said {
            match receive_with_files(&self.stream, &mut bytes, &mut self.files) {
                Ok(length @ 1..) => self.received.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no answer came"),
                _ => break,
            }
            self.is_told_no_secret();
            while let Ok(Some(message)) = decode::<FromDaemon>(&mut self.received) {
                Self::stole_nothing(&message);
                is_said |= is_it(&message);
            }
        }
        self.stream.set_nonblocking(true).expect("it is open");
        is_said
    }

    /// A client that claims what another user holds, and what nobody was granted.
    fn claimant(place: &Place, number: u8, target: &Target) -> Self {
        let (mode, token) = (Mode::Exclusive, target.token);
        let claims = [(0, NAMES[0]), (1, NEVER)].map(|(serial, name)| {
            let name = name.try_into().expect("it is a name");
            let request = RequestId::from_parts(0, serial);
            ToDaemon::ClaimLock { agent: 0, request, name, mode, token, since: 0 }
        });
        Self::client(place, number, &claims)
    }

    /// Sends what fits. Whoever was hung up on sends nothing.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    fn say(&mut self, at: u64, message: &ToDaemon) {
        let mut bytes = BytesMut::new();
        // What is longer than a message may be is not said.
        if encode(&Sent { at, message }, &mut bytes).is_ok() {
            self.send(&bytes);
        }
    }

    /// Reads what the broker has told by now, and does to the files what their owner would not.
    fn hear(&mut self, how: u8) {
        let mut bytes = [0; 4096];
        loop {
            match receive_with_files(&self.stream, &mut bytes, &mut self.files) {
                Ok(length) if length > 0 => self.received.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        self.is_told_no_secret();
        while let Ok(Some(message)) = decode::<FromDaemon>(&mut self.received) {
            Self::stole_nothing(&message);
        }
        for file in &mut self.files {
            match how % 4 {
                0 => assert!(file.write_all(b"mine").is_err(), "the attacker wrote into a file"),
                1 => assert!(file.set_len(0).is_err(), "the attacker truncated a file"),
                2 => _ = flock(&*file, FlockOperation::NonBlockingLockExclusive),
                _ => _ = flock(&*file, FlockOperation::Unlock),
            }
        }
    }
}

/// One message.
fn message(what: u8, input: &mut Input<'_>, target: &Target) -> ToDaemon {
    let (a, b) = (input.or_zero(), input.or_zero());
    let request = RequestId::from_parts(u32::from(a % 4), u64::from(b % 8));
    let agent = u32::from(a / 86);
    let name = NAMES[usize::from(b) % NAMES.len()].try_into().expect("it is a name");
    let kind = match a % 4 {
        0 => RequestKind::Steal,
        1 => RequestKind::IfAvailable(Mode::Exclusive),
        2 => RequestKind::Wait(Mode::Shared),
        _ => RequestKind::Wait(Mode::Exclusive),
    };
    let token = if a & 8 == 0 { target.token } else { FencingToken::new(u64::MAX - u64::from(b)) };
    let lock = if a & 16 == 0 { target.lock } else { LockId { serial: b.into(), ..target.lock } };
    // Another user's, which the attacker cannot know, or one of its own.
    let mut client = [b % 3; 16];
    client[..4].copy_from_slice(&if a & 32 == 0 { ATTACKER } else { 0 }.to_be_bytes());
    let client_id = if a & 64 == 0 { [b; 16] } else { target.lock.client_id.to_bytes() };
    let since = if b & 1 == 0 { 0 } else { u64::MAX };
    let query = u64::from(b);
    let bucket = || "app".to_owned();
    match what {
        0 => ToDaemon::Hello { oldest: a.into(), newest: b.into() },
        1..=3 => ToDaemon::Hello { oldest: VERSION, newest: VERSION },
        4..=7 => ToDaemon::Introduce { client, returning: a & 1 == 0 },
        8..=10 => ToDaemon::OpenAgent { agent, client_id, bucket: bucket() },
        11 => ToDaemon::CloseAgent { agent },
        12 => ToDaemon::Terminate { agent },
        13..=17 => ToDaemon::Request {
            agent,
            request,
            name,
            kind,
            slot: (a & 128 != 0).then_some(b.into()),
        },
        18 => ToDaemon::Finish { request },
        19 => ToDaemon::Query { query, bucket: "app".into() },
        20..=22 => ToDaemon::ClaimLock { agent, request, name, mode: kind.mode(), token, since },
        23 => ToDaemon::ClaimRequest { agent, request, name, kind, since },
        24 | 25 => ToDaemon::Claimed,
        26 => {
            let mut info = AgentInfo::default();
            (info.pid, info.keeper) = (std::process::id(), 1);
            (info.user, info.command) = ("root".to_owned(), "sshd".to_owned());
            ToDaemon::Describe { agent, info }
        }
        27 => ToDaemon::Inspect { query, bucket: "app".into(), name: Some(name) },
        28 => ToDaemon::Status { query },
        29 => ToDaemon::Stop,
        30 => ToDaemon::Position { query, bucket: "app".into(), name, client_id },
        31 => ToDaemon::Map { nonce: query },
        32 => ToDaemon::Inside { request, lock },
        33 => ToDaemon::Look { bucket: (a & 1 == 0).then(bucket), name: None, follow: b & 1 == 0 },
        34 | 35 => ToDaemon::Log { query, filter: "off".to_owned() },
        36..=38 => {
            let info = AgentInfo::default();
            ToDaemon::Steal { query, bucket: bucket(), name, from: vec![(lock, token)], info }
        }
        39 => ToDaemon::Patience { request, patience: Patience::GivesWay },
        40 => ToDaemon::Why { request, why: "mine".to_owned() },
        41..=43 => ToDaemon::File { client, task: FileTask::Own },
        44 => ToDaemon::File { client, task: FileTask::Reserve },
        45 => ToDaemon::File { client, task: FileTask::Inherit { claims: input.bytes() } },
        _ => ToDaemon::File { client, task: FileTask::Revoke },
    }
}

/// A broker of this process.
struct Daemon(JoinHandle<()>);

impl Daemon {
    fn start(place: &Place) -> Self {
        let (ready, is_ready) = mpsc::channel();
        let place = place.clone();
        let thread = thread::spawn(move || {
            let mut options = Options::default();
            (options.idle, options.recovery_time) = (None, RECOVERY_TIME);
            let directory = place.socket().parent().expect("it is in a directory").metadata();
            options.group = Some(group_at(&directory.expect("it is there")));
            let user_agent = |first| Ok(daemon::user_agent(first));
            let ran = daemon::run(&place, user_agent, &options, || _ = ready.send(()));
            ran.expect("it runs");
        });
        is_ready.recv_timeout(LONG).expect("it listens");
        Self(thread)
    }

    fn stop(self, place: &Place) {
        let mut stream = UnixStream::connect(place.socket()).expect("it listens");
        let mut bytes = BytesMut::new();
        for message in [&ToDaemon::Hello { oldest: VERSION, newest: VERSION }, &ToDaemon::Stop] {
            let sent = Sent { at: clock::monotonic(), message };
            encode(&sent, &mut bytes).expect("it is short");
        }
        stream.write_all(&bytes).expect("it reads");
        let _ = stream.read_to_end(&mut Vec::new());
        self.0.join().expect("it did not panic");
    }
}

/// A client of root, which comes back to each broker.
fn client(place: &Place) -> LockManager {
    let reach = BrokerReach::connect(ConnectOptions::default().place(place.clone()));
    let reach = block_on(reach).expect("the broker runs");
    UserAgent::with_reach(reach).lock_manager("app")
}

/// Asserts that another user loses and is told nothing by what these bytes have one user do.
///
/// # Panics
///
/// If that is not so.
pub(crate) fn holds(input: &[u8]) {
    let panicked = watch_panics();
    let directory = tempfile::tempdir().expect("there is room");
    let place = Place::of_system_in(directory.path().join("place"));
    std::fs::create_dir(directory.path().join("place")).expect("there is room");
    let mut daemon = Daemon::start(&place);
    let (holder, waiter) = (client(&place), client(&place));
    let held = block_on(holder.lock("held").why(SECRET)).expect("it is free");
    let mut waiting = pin!(waiter.lock("held").why(SECRET).into_owned());
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let state = block_on(waiter.inspect(None)).expect("the broker answers");
    assert_eq!(state.pending.len(), 1);
    let overview = Look::once(place.clone(), LookOptions::default()).expect("the broker answers");
    let lock = overview.queues.values().next().expect("one is held").held[0].id;
    let target = Target { lock, token: held.fencing_token() };

    let mut attackers: Vec<_> = (0..3).map(|_| Attacker::connect(&place)).collect();
    let mut input = Input(input.iter());
    let mut restarts = 0;
    while let Some(what) = input.byte() {
        let which = usize::from(input.or_zero()) % attackers.len();
        let attacker = &mut attackers[which];
        if what % 64 >= 48 {
            // It may not be there any more after this.
            attacker.hear(what);
        }
        match what % 64 {
            48 | 49 => *attacker = Attacker::connect(&place),
            50 | 51 => *attacker = Attacker::client(&place, what, &[]),
            52..=54 => attacker.send(&input.bytes()),
            55..=58 => attacker.hear(what),
            // A broker that takes over waits for its recovery time, if somebody does not come back.
            59 if restarts < 3 => {
                restarts += 1;
                daemon.stop(&place);
                daemon = Daemon::start(&place);
                attackers = (0..3).map(|_| Attacker::connect(&place)).collect();
                attackers[0] = Attacker::claimant(&place, input.or_zero() | 1, &target);
            }
            60 => attacker.stream.shutdown(std::net::Shutdown::Write).unwrap_or_default(),
            what => {
                let at = match input.or_zero() % 4 {
                    0 => 0,
                    1 => u64::MAX,
                    _ => clock::monotonic(),
                };
                attacker.say(at, &message(what, &mut input, &target));
            }
        }
    }
    for attacker in &mut attackers {
        attacker.hear(0);
    }
    // One with a key that no other has.
    let mut asks = Attacker::client(&place, 0, &[]);
    asks.say(clock::monotonic(), &ToDaemon::Inspect { query: 1, bucket: "app".into(), name: None });
    let is_told = asks.until(|message| matches!(message, FromDaemon::Inspection { .. }));
    assert!(is_told, "another user cannot look any more");
    drop(asks);

    // The answer comes after all that was sent before.
    let state = block_on_timeout(waiter.inspect(None), LONG).expect("the broker answers");
    assert!(!held.is_lost(), "a lock was lost to another user");
    let state = state.expect("the broker answers").held;
    let of = |name: &str| state.iter().filter(|held| held.lock.name == *name).collect::<Vec<_>>();
    let holders: Vec<_> = of("held").iter().map(|held| held.lock.client_id).collect();
    assert_eq!(holders, [holder.client_id()], "somebody else holds what is held");
    assert!(of(NEVER).is_empty(), "a lock was believed that nobody was granted");
    assert!(waiting.as_mut().poll(&mut context).is_pending(), "two hold at once");
    let token = held.fencing_token();
    drop(held);
    let next = block_on_timeout(waiting, LONG).expect("the next one is granted");
    assert!(next.expect("it is granted").fencing_token() > token);
    drop(attackers);
    // What the attacker had is free, and nobody waits for the dead.
    for name in NAMES {
        let had = block_on_timeout(waiter.lock(name).into_future(), LONG);
        drop(had.expect("it is free").expect("it is granted"));
    }
    drop((holder, waiter));
    daemon.stop(&place);
    assert!(!panicked.load(SeqCst), "the broker panicked");
}

/// Whether anything has panicked, of which a broker's sessions tell nobody.
fn watch_panics() -> &'static AtomicBool {
    static PANICKED: AtomicBool = AtomicBool::new(false);
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICKED.store(true, SeqCst);
            before(info);
        }));
    });
    &PANICKED
}
