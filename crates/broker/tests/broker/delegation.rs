//! Locks that stand in their clients' maps, by clients that speak the protocol by hand.

mod hostile;
mod owners;
mod seen;
mod sleepers;
mod takeovers;
mod tokens;
mod whys;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use navlock_broker::{
    Place,
    daemon::{self, Options},
};
use navlock_core::{AgentInfo, FencingToken, Inspected, LockInfo, Mode, host::RequestKind};
use navlock_delegation::{Look, OwnerMap, Released, Slot};
use navlock_engine::RequestId;
use navlock_wire::{FromDaemon, Status, ToDaemon, VERSION};
use rustix::fs::{FlockOperation, flock};

use crate::{daemon::LONG, raw::Raw};

const EXCLUSIVE: RequestKind = RequestKind::Wait(Mode::Exclusive);
const SHARED: RequestKind = RequestKind::Wait(Mode::Shared);
const TRY: RequestKind = RequestKind::IfAvailable(Mode::Exclusive);

/// A daemon with files of its clients, that others can take over from.
struct Host {
    directory: tempfile::TempDir,
    options: Options,
    thread: Option<JoinHandle<()>>,
}

/// A client with its own file.
struct Client {
    raw: Raw,
    directory: PathBuf,
    /// The number of which its key, and so the name of its file, and the id of its agent are made.
    number: u8,
    file: File,
    map: Option<OwnerMap>,
    /// The epoch of tokens that the daemon has told.
    epoch: u64,
    asked: u32,
}

impl Host {
    fn start() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::default();
        (options.idle, options.recovery_time) = (None, Duration::from_millis(500));
        change(&mut options);
        let mut host = Self { directory: tempfile::tempdir().unwrap(), options, thread: None };
        host.begin();
        host
    }

    fn begin(&mut self) {
        let (ready, is_ready) = mpsc::channel();
        let (place, options) = (self.place(), self.options.clone());
        self.thread = Some(thread::spawn(move || {
            let user_agent = |first| Ok(daemon::user_agent(first));
            daemon::run(&place, user_agent, &options, || _ = ready.send(())).unwrap();
        }));
        is_ready.recv_timeout(LONG).unwrap();
    }

    /// Ends the daemon as if it had been killed: nobody is told.
    fn kill(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let hello = ToDaemon::Hello { oldest: VERSION, newest: VERSION };
        let mut asks = Raw::connect(&self.place(), &[hello, ToDaemon::Stop]);
        asks.receive_until(|message| (*message == FromDaemon::Stopping).then_some(()));
        thread.join().unwrap();
    }

    fn place(&self) -> Place {
        Place::at(self.directory.path().join("sock"))
    }

    /// How many clients there are.
    fn clients(&self) -> u64 {
        self.status().numbers.clients
    }

    /// One of the details that the daemon tells of itself.
    fn detail(&self, wanted: &str) -> Option<String> {
        let details = self.status().details;
        details.into_iter().find(|(what, _)| what == wanted).map(|(_, is)| is)
    }

    fn status(&self) -> Status {
        let hello = ToDaemon::Hello { oldest: VERSION, newest: VERSION };
        let mut asks = Raw::connect(&self.place(), &[hello, ToDaemon::Status { query: 1 }]);
        let (status, _) = asks.receive_until(|message| match message {
            FromDaemon::Status { status, .. } => Some(status.clone()),
            _ => None,
        });
        status
    }

    /// A client with a map that the daemon has confirmed.
    fn owner(&self, number: u8) -> Client {
        let mut owner = self.client(number);
        assert!(owner.make_map());
        owner
    }

    /// A client without a map.
    fn client(&self, number: u8) -> Client {
        Client::connect(self.directory.path(), number)
    }
}

/// The path of the file of the client with this number.
fn path(directory: &Path, number: u8) -> PathBuf {
    let key = u128::from_be_bytes([number; 16]);
    directory.join("sock.clients").join(format!("{key:032x}"))
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Client {
    fn connect(directory: &Path, number: u8) -> Self {
        let path = path(directory, number);
        let _ = fs::create_dir(path.parent().unwrap());
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let raw = Self::greet(directory, number, false, &[]);
        let directory = directory.to_owned();
        Self { raw, directory, number, file, map: None, epoch: 0, asked: 0 }
    }

    /// The path of its file.
    fn path(&self) -> PathBuf {
        path(&self.directory, self.number)
    }

    fn greet(directory: &Path, number: u8, returning: bool, claims: &[ToDaemon]) -> Raw {
        let mut words = vec![
            ToDaemon::Hello { oldest: VERSION, newest: VERSION },
            ToDaemon::Introduce { client: [number; 16], returning },
            ToDaemon::OpenAgent { agent: 0, client_id: [number; 16], bucket: "app".to_owned() },
        ];
        words.extend_from_slice(claims);
        if returning {
            words.push(ToDaemon::Claimed);
        } else {
            let info = AgentInfo::default().command(format!("client {number}"));
            words.push(ToDaemon::Describe { agent: 0, info });
        }
        let mut raw = Raw::connect(&Place::at(directory.join("sock")), &words);
        let (welcome, _) = raw.receive_until(|message| match message {
            FromDaemon::Welcome { version, .. } => Some(*version),
            _ => None,
        });
        assert_eq!(welcome, VERSION);
        assert_eq!(raw.receive(), FromDaemon::Settled);
        raw
    }

    /// Comes back to another daemon with these claims. Returns what the daemon has answered to them.
    fn come_back(&mut self, claims: &[ToDaemon]) -> Vec<FromDaemon> {
        self.raw = Self::greet(&self.directory, self.number, true, claims);
        self.all_said()
    }

    /// Makes a map of its file, and announces it. Returns whether the daemon has confirmed the map.
    fn make_map(&mut self) -> bool {
        let map = OwnerMap::make(&self.file).unwrap();
        self.raw.say(&[ToDaemon::Map { nonce: map.nonce() }]);
        let mapped = self.all_said();
        let said = match mapped[..] {
            [] => false,
            [FromDaemon::Mapped { nonce, epoch }] => {
                assert!(map.is_confirmed(nonce));
                self.epoch = epoch;
                true
            }
            ref other => panic!("{other:?}"),
        };
        self.map = Some(map);
        said
    }

    fn slot(&self, slot: u32) -> &Slot {
        self.map.as_ref().unwrap().slot(slot).unwrap()
    }

    fn look(&self, slot: u32) -> Look {
        self.slot(slot).word().look()
    }

    fn number(&mut self) -> RequestId {
        self.asked += 1;
        RequestId::from_parts(self.asked, self.asked.into())
    }

    /// Asks for a name, without a slot.
    fn ask(&mut self, name: &str, kind: RequestKind) -> RequestId {
        let request = self.number();
        let name = name.try_into().unwrap();
        self.raw.say(&[ToDaemon::Request { agent: 0, request, name, kind, slot: None }]);
        request
    }

    /// Asks for a name in this slot.
    fn ask_in(&mut self, slot: u32, name: &str, kind: RequestKind) -> RequestId {
        let request = self.number();
        let name = name.try_into().unwrap();
        let described =
            self.slot(slot).describe("app", &name, kind.mode(), 0, [self.number; 16], request);
        assert!(described);
        self.raw.say(&[ToDaemon::Request { agent: 0, request, name, kind, slot: Some(slot) }]);
        request
    }

    /// The same, and is granted the lock in the slot at once.
    fn take_in(&mut self, slot: u32, name: &str, kind: RequestKind) -> (RequestId, FencingToken) {
        let request = self.ask_in(slot, name, kind);
        let token = self.granted_in_slot(request);
        let look = self.look(slot);
        assert!(look.is_held());
        assert_eq!(self.slot(slot).token(look.count()), token.get());
        (request, token)
    }

    /// Asks for a name without a slot, and is granted the lock at once.
    fn take(&mut self, name: &str, kind: RequestKind) -> (RequestId, FencingToken) {
        let request = self.ask(name, kind);
        let token = self.granted(request);
        (request, token)
    }

    fn granted_in_slot(&mut self, wanted: RequestId) -> FencingToken {
        match self.raw.receive() {
            FromDaemon::Granted { request, token, in_slot: true } if request == wanted => token,
            other => panic!("{other:?}"),
        }
    }

    fn granted(&mut self, wanted: RequestId) -> FencingToken {
        match self.raw.receive() {
            FromDaemon::Granted { request, token, in_slot: false } if request == wanted => token,
            other => panic!("{other:?}"),
        }
    }

    /// Takes the name again without asking. Returns the token.
    fn retake(&self, slot: u32) -> Option<FencingToken> {
        let count = self.slot(slot).word().take()?;
        Some(FencingToken::new(self.slot(slot).token(count)))
    }

    /// Releases the lock that it holds in a slot.
    fn release(&self, slot: u32) -> Released {
        self.slot(slot).word().release(self.look(slot).count())
    }

    fn finish(&mut self, request: RequestId) {
        self.raw.say(&[ToDaemon::Finish { request }]);
    }

    /// Takes this name in a slot and releases it, and then owns it.
    fn own(&mut self, slot: u32, name: &str, kind: RequestKind) -> RequestId {
        let (request, _) = self.take_in(slot, name, kind);
        assert_eq!(self.release(slot), Released::Kept);
        request
    }

    /// All messages that the daemon has sent until now.
    fn all_said(&mut self) -> Vec<FromDaemon> {
        self.status().1
    }

    fn status(&mut self) -> (Status, Vec<FromDaemon>) {
        self.raw.say(&[ToDaemon::Status { query: 77 }]);
        self.raw.receive_until(|message| match message {
            FromDaemon::Status { query: 77, status } => Some(status.clone()),
            _ => None,
        })
    }

    /// Whether the daemon has sent no message, so that the client still waits.
    fn waits(&mut self) -> bool {
        self.all_said().is_empty()
    }

    /// The names that are held, and those that are waited for.
    fn query(&mut self) -> (Vec<String>, Vec<String>) {
        self.raw.say(&[ToDaemon::Query { query: 5, bucket: "app".into() }]);
        let (found, _) = self.raw.receive_until(|message| match message {
            FromDaemon::Snapshot { query: 5, held, pending, last: true } => {
                Some((held.clone(), pending.clone()))
            }
            _ => None,
        });
        let names = |entries: Vec<LockInfo>| {
            entries.into_iter().map(|entry| entry.name.to_string()).collect()
        };
        (names(found.0), names(found.1))
    }

    fn inspect(&mut self) -> (Vec<Inspected>, Vec<Inspected>) {
        let inspect = ToDaemon::Inspect { query: 6, bucket: "app".into(), name: None };
        self.raw.say(&[inspect]);
        let (all, _) = self.raw.receive_until(|message| match message {
            FromDaemon::Inspection { query: 6, held, owned, last: true, .. } => {
                Some((held.clone(), owned.clone()))
            }
            _ => None,
        });
        all
    }

    /// The message by which it claims the lock that it holds in a slot.
    fn claim(&self, slot: u32) -> ToDaemon {
        let description = self.slot(slot).description().unwrap();
        let token = FencingToken::new(self.slot(slot).token(self.look(slot).count()));
        ToDaemon::ClaimLock {
            agent: 0,
            request: description.request,
            name: description.name,
            mode: description.mode,
            token,
            since: self.slot(slot).since(),
        }
    }
}
