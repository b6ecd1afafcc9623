//! What ten lookers cost others by their own work alone: they get the same from a process that is no broker.
//! That process has prepared all that it sends before anybody comes, and sends it by one system call.

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use navlock_core::{
    ClientId, FencingToken, Mode,
    look::{Change, Client, ClientState, Entry, LockId, LockName},
};
use navlock_wire::{FromDaemon, LookEvent, VERSION, encode};

use super::load::{HELD, MANY, NAMES, PAIRS};

/// The first argument of that process.
pub(crate) const CONTROL: &str = "control";

/// How often each looker is sent something, as by the broker.
const TURN: Duration = Duration::from_millis(10);

/// Sends lookers at this socket what a broker would send, until it is killed.
///
/// # Errors
///
/// What fails with its sockets.
pub(crate) fn tell(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let socket = args.next().ok_or("the path of a socket is missing")?;
    tell_at(Path::new(&socket)).map_err(|error| error.to_string())
}

fn tell_at(socket: &Path) -> std::io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    println!("ready");
    let (there_is, happens) = (there_is(), happens());
    let mut lookers = Vec::new();
    for stream in listener.incoming().take(MANY) {
        let mut stream = stream?;
        hear(&mut stream)?;
        say(&mut stream, &FromDaemon::Welcome { version: VERSION, reach: None })?;
        hear(&mut stream)?;
        stream.write_all(&there_is)?;
        lookers.push(stream);
    }
    // Serve one looker after the other, as far apart in time as possible.
    let apart = TURN / u32::try_from(MANY).unwrap_or(1);
    let mut next = Instant::now();
    loop {
        for looker in &mut lookers {
            next += apart;
            thread::sleep(next.saturating_duration_since(Instant::now()));
            looker.write_all(&happens)?;
        }
    }
}

/// Reads something, whatever it is.
fn hear(stream: &mut UnixStream) -> std::io::Result<()> {
    stream.read(&mut [0; 1024]).map(drop)
}

fn say(stream: &mut UnixStream, message: &FromDaemon) -> std::io::Result<()> {
    stream.write_all(&frame(message))
}

fn frame(message: &FromDaemon) -> BytesMut {
    let mut bytes = BytesMut::new();
    encode(message, &mut bytes).expect("it is shorter than a frame");
    bytes
}

/// The first picture: a client with all that is held.
fn there_is() -> BytesMut {
    let mut bytes = frame(&FromDaemon::LookBegins { missed: 0, pids: None });
    let details = Client::new(1, ClientState::Connected);
    let came = Change::ClientCame { client: 1, details };
    let held = (0..HELD).map(|n| granted(&format!("held {n}"), n as u64));
    let all: Vec<_> = [came].into_iter().chain(held).collect();
    for part in all.chunks(400) {
        put(part.iter().cloned(), &mut bytes);
    }
    bytes.extend_from_slice(&frame(&FromDaemon::LookComplete));
    bytes
}

/// The events of one turn: each name is taken and released.
fn happens() -> BytesMut {
    let mut bytes = BytesMut::new();
    let pairs = u128::from(PAIRS) * TURN.as_millis() / 1000;
    let changes = (0..u64::try_from(pairs).unwrap_or_default()).flat_map(|pair| {
        let name = format!("busy {}", pair % u64::from(NAMES));
        let serial = HELD as u64 + pair;
        let released = Change::Released { name: of(&name), id: id(serial) };
        [granted(&name, serial), released]
    });
    put(changes, &mut bytes);
    bytes
}

fn put(changes: impl Iterator<Item = Change>, bytes: &mut BytesMut) {
    let events = changes.map(|change| LookEvent { at: 1 << 40, change }).collect();
    bytes.extend_from_slice(&frame(&FromDaemon::LookEvents { events }));
}

fn of(name: &str) -> LockName {
    LockName::new("bench", name.try_into().expect("it begins with a letter"))
}

fn id(serial: u64) -> LockId {
    LockId { client_id: ClientId::from_bytes([2; 16]), serial }
}

fn granted(name: &str, serial: u64) -> Change {
    let mut entry = Entry::new(id(serial), Mode::Exclusive);
    entry.token = Some(FencingToken::new(1 << 60));
    Change::Granted { name: of(name), entry }
}
