//! What holds whatever a few clients do, in good faith or not, while daemons come and go.
//!
//! This is one file because the target `sessions` in `fuzz/` includes it by its path: from there,
//! modules of its own would be looked for in another folder than from here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{ErrorKind, Read, Write},
    os::unix::{fs::MetadataExt, net::UnixStream},
    path::PathBuf,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::BytesMut;
use navlock_broker::{
    Place,
    daemon::{self, Options},
};
use navlock_core::{AgentInfo, FencingToken, Mode, host::RequestKind};
use navlock_delegation::{GivenBack, OwnerMap, Released, Word};
use navlock_engine::RequestId;
use navlock_platform::clock;
use navlock_wire::{FromDaemon, Sent, ToDaemon, VERSION, decode, encode};
use rustix::fs::{FlockOperation, flock};

/// How long anything may take that must happen.
const LONG: Duration = Duration::from_secs(30);

/// How long a daemon waits for those who do not come back.
const RECOVERY_TIME: Duration = Duration::from_millis(60);

const NAMES: [&str; 2] = ["a", "b"];

/// More than anybody has in here.
const AGENTS: u8 = 2;

/// What a client of whom this is made thinks to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientEntry {
    /// With the slot in which it is to stand, if in one.
    Asked(RequestKind, Option<u32>),
    Lock(Mode, FencingToken),
    /// Its own, in this slot; the word says whether it is held.
    Owned(Mode, u32),
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Claiming,
    Settled,
    /// The daemon has seen the client's map.
    Mapped,
}

/// A client that speaks by hand.
struct Client {
    key: [u8; 16],
    /// What it owns, which it lets go of before its file.
    map: Option<OwnerMap>,
    /// The slots that are in use, or may be for all that it knows.
    slots: BTreeSet<u32>,
    /// Its file, and where that is.
    file: Option<File>,
    path: PathBuf,
    stream: Option<UnixStream>,
    received: BytesMut,
    was_connected: bool,
    /// It does not hear for the moment, as if it had been stopped.
    is_deaf: bool,
    stage: Stage,
    answered: u64,
    asked: u64,
    agents: Vec<u8>,
    /// By the serial numbers of the requests.
    has: BTreeMap<u64, (u8, usize, ClientEntry)>,
    next: u64,
}

impl Client {
    fn new(place: &Place, number: u8) -> Self {
        let key = [number + 1; 16];
        let directory = place.socket().with_extension("clients");
        let path = directory.join(format!("{:032x}", u128::from_be_bytes(key)));
        Self {
            key,
            map: None,
            slots: BTreeSet::new(),
            file: None,
            path,
            stream: None,
            received: BytesMut::new(),
            was_connected: false,
            is_deaf: false,
            stage: Stage::Claiming,
            answered: 0,
            asked: 0,
            agents: Vec::new(),
            has: BTreeMap::new(),
            next: 0,
        }
    }

    /// Whether its file is where a daemon looks for it.
    fn stands(&self) -> bool {
        let of = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let ours = self.file.as_ref().and_then(|file| file.metadata().ok()).map(of);
        ours.is_some() && ours == fs::symlink_metadata(&self.path).ok().map(of)
    }

    /// Connects, and claims what it has. Then it claims what it has not, if it lies.
    fn connect(&mut self, place: &Place, lies: bool) {
        if self.stream.is_some() {
            return;
        }
        let stream = UnixStream::connect(place.socket()).expect("the daemon listens");
        stream.set_read_timeout(Some(LONG)).expect("it is open");
        (self.stream, self.received, self.stage) = (Some(stream), BytesMut::new(), Stage::Claiming);
        if !self.stands() {
            self.has.retain(|_, (_, _, has)| matches!(has, ClientEntry::Asked(..)));
            self.has.values_mut().for_each(|(_, _, has)| {
                if let ClientEntry::Asked(_, slot) = has {
                    *slot = None;
                }
            });
            let _ = fs::create_dir(self.path.parent().expect("it is in a directory"));
            let mut options = File::options();
            let file = options.read(true).write(true).create(true).truncate(true).open(&self.path);
            let file = file.expect("it can be made");
            flock(&file, FlockOperation::LockExclusive).expect("nobody else has it");
            (self.map, self.file) =
                (Some(OwnerMap::make(&file).expect("there is room")), Some(file));
        }
        self.give_back();
        if lies {
            let request = self.number();
            let token = FencingToken::new(u64::MAX - request);
            self.has.insert(request, (0, 0, ClientEntry::Lock(Mode::Exclusive, token)));
            if !self.agents.contains(&0) {
                self.agents.push(0);
            }
        }
        let returning = self.was_connected || lies;
        let mut words = vec![
            ToDaemon::Hello { oldest: VERSION, newest: VERSION },
            ToDaemon::Introduce { client: self.key, returning },
        ];
        if returning {
            words.extend(self.agents.iter().map(|&agent| open(agent)));
            words.extend(self.has.iter().map(|(&request, &(agent, name, has))| {
                let request = id(request);
                let (agent, name) = (agent.into(), NAMES[name].try_into().expect("it is a name"));
                match has {
                    ClientEntry::Lock(mode, token) => {
                        ToDaemon::ClaimLock { agent, request, name, mode, token, since: 1 }
                    }
                    ClientEntry::Owned(mode, slot) => {
                        let token = self.token(slot);
                        ToDaemon::ClaimLock { agent, request, name, mode, token, since: 1 }
                    }
                    ClientEntry::Asked(kind, _) => {
                        ToDaemon::ClaimRequest { agent, request, name, kind, since: 1 }
                    }
                }
            }));
            words.push(ToDaemon::Claimed);
        } else {
            words.extend(self.agents.iter().map(|&agent| open(agent)));
        }
        self.was_connected = true;
        self.count();
        self.say(&words);
    }

    fn word(&self, slot: u32) -> &Word {
        let map = self.map.as_ref().expect("it has slots");
        map.slot(slot).expect("it has this one").word()
    }

    /// The token of what is held in a slot.
    fn token(&self, slot: u32) -> FencingToken {
        let slot = self.map.as_ref().and_then(|map| map.slot(slot)).expect("it has this one");
        FencingToken::new(slot.token(slot.word().look().count()))
    }

    /// Owns nothing any more, before it goes on with another daemon: what it does not hold it gives back,
    /// and what it was granted without hearing of it, it has.
    fn give_back(&mut self) {
        let mut has = std::mem::take(&mut self.has);
        has.retain(|_, (_, _, has)| {
            if let ClientEntry::Asked(kind, Some(slot)) = *has {
                let look = self.word(slot).look();
                let was_granted = look.is_held() || look.is_lost();
                *has = if was_granted {
                    ClientEntry::Owned(kind.mode(), slot)
                } else {
                    ClientEntry::Asked(kind, None)
                };
            }
            match *has {
                ClientEntry::Owned(_, slot) => self.word(slot).give_back() == GivenBack::Recalled,
                _ => true,
            }
        });
        self.has = has;
    }

    /// Has its claims settled: it releases by messages what it has, and has use for all slots.
    fn settled(&mut self) {
        self.stage = Stage::Settled;
        for slot in std::mem::take(&mut self.slots) {
            let token = self.token(slot);
            for (_, _, has) in self.has.values_mut() {
                if let ClientEntry::Owned(mode, of) = *has {
                    *has = if of == slot { ClientEntry::Lock(mode, token) } else { *has };
                }
            }
            self.word(slot).clear();
        }
        self.count();
        if let Some(nonce) = self.map.as_ref().map(OwnerMap::nonce) {
            self.say(&[ToDaemon::Map { nonce }]);
        }
    }

    /// Notes in its map how much it has or waits for that is not in it.
    fn count(&self) {
        let outside = |has: &&(u8, usize, ClientEntry)| {
            matches!(has.2, ClientEntry::Lock(..) | ClientEntry::Asked(_, None))
        };
        let outside = self.has.values().filter(outside).count();
        if let Some(map) = &self.map {
            map.set_unmapped(u32::try_from(outside).expect("there are few"));
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn say(&mut self, words: &[ToDaemon]) {
        let mut bytes = BytesMut::new();
        for word in words {
            let sent = Sent { at: clock::monotonic(), message: word };
            encode(&sent, &mut bytes).expect("it is short");
        }
        // Who was hung up on hears of it.
        let _ = self.stream.as_mut().map(|stream| stream.write_all(&bytes));
    }

    /// Asks for a lock, in a slot or in none.
    fn request(&mut self, agent: u8, name: usize, kind: RequestKind, in_slot: bool) {
        if self.stream.is_none() || self.is_deaf {
            return;
        }
        if !self.agents.contains(&agent) {
            self.agents.push(agent);
            self.say(&[open(agent)]);
        }
        let number = self.number();
        let is_free = |slot: &u32| !self.slots.contains(slot) && self.word(*slot).look().is_free();
        let slot = (in_slot && self.stage == Stage::Mapped).then(|| (0..8).find(is_free)).flatten();
        self.has.insert(number, (agent, name, ClientEntry::Asked(kind, slot)));
        self.count();
        let name = NAMES[name].try_into().expect("it is a name");
        let (request, client_id, agent) = (id(number), [agent; 16], u32::from(agent));
        let Some(slot) = slot else {
            return self.say(&[ToDaemon::Request { agent, request, name, kind, slot: None }]);
        };
        self.slots.insert(slot);
        let map = self.map.as_ref().and_then(|map| map.slot(slot)).expect("it has this one");
        assert!(map.describe("app", &name, kind.mode(), agent, client_id, request));
        self.say(&[ToDaemon::Request { agent, request, name, kind, slot: Some(slot) }]);
    }

    /// Releases what stands in a slot, or takes it again.
    fn turn(&mut self, request: u64, slot: u32) {
        let look = self.word(slot).look();
        if look.is_held() {
            match self.word(slot).release(look.count()) {
                Released::Kept => return,
                Released::Tell => self.say(&[ToDaemon::Finish { request: id(request) }]),
                Released::Gone => {}
            }
        } else if (self.stream.is_some() || self.stands()) && self.word(slot).take().is_some() {
            return;
        }
        self.has.remove(&request);
        self.free(slot);
    }

    /// What stood there is over.
    fn free(&mut self, slot: u32) {
        self.word(slot).clear();
        self.slots.remove(&slot);
    }

    /// Ends one of the things that it has.
    fn finish(&mut self, which: u8) {
        let which = usize::from(which).checked_rem(self.has.len()).unwrap_or_default();
        let (&request, &(_, _, has)) = match self.has.iter().nth(which) {
            Some(one) if !self.is_deaf => one,
            _ => return,
        };
        if let ClientEntry::Owned(_, slot) = has {
            return self.turn(request, slot);
        }
        // If it was asked for in a slot, it may be granted in it yet.
        self.has.remove(&request);
        self.say(&[ToDaemon::Finish { request: id(request) }]);
        self.count();
    }

    fn close(&mut self, agent: u8, word: fn(u32) -> ToDaemon) {
        if self.stream.is_some() && !self.is_deaf && self.agents.contains(&agent) {
            let word = word(agent.into());
            let owned = self.has.values().filter_map(|&(of, _, has)| match has {
                ClientEntry::Owned(_, slot) if of == agent => Some(slot),
                _ => None,
            });
            owned.collect::<Vec<_>>().into_iter().for_each(|slot| self.free(slot));
            self.has.retain(|_, (of, ..)| *of != agent);
            self.agents.retain(|&open| open != agent);
            // One that was terminated is still open.
            let words = [word, ToDaemon::CloseAgent { agent: agent.into() }];
            let is_closed = matches!(words[0], ToDaemon::CloseAgent { .. });
            self.say(if is_closed { &words[..1] } else { &words });
        }
    }

    /// Hears all that was said to it until now, or until its connection ended.
    fn catch_up(&mut self) {
        self.asked += 1;
        self.say(&[ToDaemon::Status { query: self.asked }]);
        while self.stream.is_some() && self.answered < self.asked {
            self.receive();
        }
    }

    /// Receives everything on a connection that has ended.
    fn receive_all(&mut self) {
        while self.stream.is_some() {
            self.receive();
        }
    }

    fn receive(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let mut bytes = [0; 512];
        match stream.read(&mut bytes) {
            Ok(0) => self.leave(),
            Ok(length) => self.received.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => self.leave(),
            Err(error) => panic!("nothing was received: {error}"),
        }
        while let Some(word) = decode::<FromDaemon>(&mut self.received).expect("it makes sense") {
            match word {
                FromDaemon::Granted { request, token, in_slot: false } => {
                    if let Some((_, _, has)) = self.has.get_mut(&request.serial()) {
                        if let ClientEntry::Asked(kind, slot) = *has {
                            assert_eq!(slot, None, "it was granted outside of its slot");
                            *has = ClientEntry::Lock(kind.mode(), token);
                        }
                    }
                }
                FromDaemon::Granted { request, in_slot: true, .. } => {
                    if let Some((_, _, has)) = self.has.get_mut(&request.serial()) {
                        if let ClientEntry::Asked(kind, Some(slot)) = *has {
                            *has = ClientEntry::Owned(kind.mode(), slot);
                        }
                    }
                }
                FromDaemon::Unavailable { request }
                | FromDaemon::Failed { request, .. }
                | FromDaemon::Lost { request, .. } => {
                    let had = self.has.remove(&request.serial());
                    if let Some((
                        _,
                        _,
                        ClientEntry::Owned(_, slot) | ClientEntry::Asked(_, Some(slot)),
                    )) = had
                    {
                        self.free(slot);
                    }
                    self.count();
                }
                FromDaemon::Settled => self.settled(),
                FromDaemon::Mapped { nonce, .. } => {
                    let map = self.map.as_ref().expect("it has said so");
                    assert!(map.is_confirmed(nonce), "the daemon has seen another map");
                    self.stage = Stage::Mapped;
                }
                FromDaemon::Status { query, .. } => self.answered = query,
                _ => {}
            }
        }
    }

    /// It has no connection any more, whoever has ended it.
    fn leave(&mut self) {
        (self.stream, self.is_deaf, self.stage) = (None, false, Stage::Claiming);
        self.asked = self.answered;
    }

    /// What it holds, of this name, and may go by.
    fn holds(&self, name: usize) -> Vec<Mode> {
        // Who is deaf has lost it as soon as it hears; who has no connection looks for its file.
        let is_sure = match &self.stream {
            Some(_) => !self.is_deaf && self.stage != Stage::Claiming,
            None => self.stands(),
        };
        let held = self.has.values().filter(|(_, of, _)| *of == name).filter_map(|(_, _, has)| {
            match *has {
                ClientEntry::Lock(mode, _) => is_sure.then_some(mode),
                // Whatever it has heard.
                ClientEntry::Owned(mode, slot) => self.word(slot).look().is_held().then_some(mode),
                ClientEntry::Asked(..) => None,
            }
        });
        held.collect()
    }
}

fn id(serial: u64) -> RequestId {
    RequestId::from_parts(u32::try_from(serial).expect("it is small"), serial)
}

fn open(agent: u8) -> ToDaemon {
    let (agent, client_id) = (agent.into(), [agent; 16]);
    ToDaemon::OpenAgent { agent, client_id, bucket: "app".to_owned() }
}

/// A daemon of this process.
struct Daemon(Option<JoinHandle<()>>);

impl Daemon {
    fn start(place: &Place) -> Self {
        let (ready, is_ready) = mpsc::channel();
        let place = place.clone();
        let thread = thread::spawn(move || {
            let mut options = Options::default();
            (options.idle, options.recovery_time) = (None, RECOVERY_TIME);
            let user_agent = |first| Ok(daemon::user_agent(first));
            let ran = daemon::run(&place, user_agent, &options, || _ = ready.send(()));
            ran.expect("it runs");
        });
        is_ready.recv_timeout(LONG).expect("it listens");
        Self(Some(thread))
    }

    /// Ends it, as if it had been killed: its clients are not told.
    fn stop(&mut self, place: &Place) {
        let mut asks = Client::new(place, u8::MAX - 1);
        asks.stream = UnixStream::connect(place.socket()).ok();
        asks.say(&[ToDaemon::Hello { oldest: VERSION, newest: VERSION }, ToDaemon::Stop]);
        asks.receive_all();
        self.0.take().map(JoinHandle::join).expect("it ran").expect("it did not panic");
    }
}

/// Asserts that what these bytes have clients do ends well.
///
/// # Panics
///
/// If it does not.
pub(crate) fn holds(input: &[u8]) {
    let panicked = watch_panics();
    let directory = tempfile::tempdir().expect("there is room");
    let place = Place::at(directory.path().join("sock"));
    let mut daemon = Daemon::start(&place);
    let mut clients: Vec<_> = (0..3).map(|number| Client::new(&place, number)).collect();
    // Names that were stolen since all had heard of everything.
    let mut stolen = [false; NAMES.len()];
    let mut input = input.iter().copied();
    while let (Some(what), Some(how)) = (input.next(), input.next()) {
        let client = &mut clients[usize::from(what >> 4) % 3];
        let (agent, name) = (how % AGENTS, usize::from(how >> 1) % NAMES.len());
        let mode = if how & 4 == 0 { Mode::Exclusive } else { Mode::Shared };
        match what & 15 {
            0 | 1 => client.connect(&place, false),
            2..=4 => client.request(agent, name, RequestKind::Wait(mode), how & 8 != 0),
            5 => client.request(agent, name, RequestKind::IfAvailable(mode), how & 8 != 0),
            6 => {
                stolen[name] = true;
                client.request(agent, name, RequestKind::Steal, how & 8 != 0);
            }
            7 | 8 => client.finish(how),
            9 => client.close(agent, |agent| ToDaemon::CloseAgent { agent }),
            10 => client.close(agent, |agent| ToDaemon::Terminate { agent }),
            11 => client.is_deaf = client.stream.is_some() && !client.is_deaf,
            12 if how & 1 == 0 => {
                // It dies.
                let number = client.key[0] - 1;
                drop(fs::remove_file(&client.path));
                *client = Client::new(&place, number);
            }
            12 => {
                // It hangs up.
                let stream = client.stream.as_ref();
                let _ = stream.map(|stream| stream.shutdown(std::net::Shutdown::Write));
                client.receive_all();
            }
            13 if how % 8 == 0 => {
                stolen = [true; NAMES.len()];
                client.connect(&place, true);
            }
            13 => {
                // What no client says.
                let info = AgentInfo::default();
                client.say(&[ToDaemon::Describe { agent: 77, info }]);
            }
            14 => {
                daemon.stop(&place);
                for client in clients.iter_mut().filter(|client| !client.is_deaf) {
                    client.receive_all();
                }
                daemon = Daemon::start(&place);
            }
            _ => check(&mut clients, &mut stolen),
        }
    }
    check(&mut clients, &mut stolen);
    for client in &mut clients {
        drop(fs::remove_file(&client.path));
    }
    drop(clients);
    // Nothing is left behind, and nobody waits for the dead.
    let mut last = Client::new(&place, 9);
    last.connect(&place, false);
    for name in 0..NAMES.len() {
        last.request(0, name, RequestKind::Wait(Mode::Exclusive), false);
        while last.holds(name).is_empty() {
            last.receive();
            assert!(last.stream.is_some(), "it was hung up on");
        }
    }
    daemon.stop(&place);
    assert!(!panicked.load(SeqCst), "the daemon panicked");
}

/// Has everybody who hears hear all, and looks whether what they hold can be held together.
fn check(clients: &mut [Client], stolen: &mut [bool; NAMES.len()]) {
    // Twice: what one has said that has caught up first may be news for the next.
    for _ in 0..2 {
        for client in clients.iter_mut().filter(|client| !client.is_deaf) {
            client.catch_up();
        }
    }
    for (name, stolen) in stolen.iter().enumerate() {
        let held: Vec<_> = clients.iter().flat_map(|client| client.holds(name)).collect();
        let together = held.len() < 2 || held.iter().all(|&mode| mode == Mode::Shared);
        assert!(*stolen || together, "{} is held by {held:?} at once", NAMES[name]);
    }
    if clients
        .iter()
        .all(|client| client.stream.is_some() && client.stage != Stage::Claiming && !client.is_deaf)
    {
        *stolen = [false; NAMES.len()];
    }
}

/// Whether anything has panicked, of which a daemon's sessions tell nobody.
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
