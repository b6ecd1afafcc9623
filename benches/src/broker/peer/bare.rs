//! A floor: a minimal broker on tokio that grants locks by name in the order of the requests, and frees what
//! a dead client had. It has exclusive locks only, no versions, no limits, no queries.
//!
//! A client sends frames: the length in four bytes, the kind of message in one, the number of the request in
//! eight, then the lock's name. The answer is the length and the number of the request that was granted.

use std::{
    collections::{HashMap, HashSet, VecDeque, hash_map},
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::AsyncReadExt,
    net::{
        UnixListener,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::{super::row::NAME, client};

const ACQUIRE: u8 = 1;
const RELEASE: u8 = 2;

/// The length of what stands before the name in a frame, without the frame's length.
const HEAD: usize = 9;

/// Serves until it is killed.
pub(super) fn serve(place: &Path, ready: impl FnOnce()) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = UnixListener::bind(place)?;
        ready();
        let locks = Arc::<Locks>::default();
        loop {
            let (stream, _) = listener.accept().await?;
            let (from, to) = stream.into_split();
            tokio::spawn(session(from, Arc::new(to), Arc::clone(&locks)));
        }
    })
}

/// For each name the request that holds, which is the first, and those that wait.
#[derive(Default)]
struct Locks(Mutex<HashMap<Vec<u8>, VecDeque<Request>>>);

struct Request {
    client: Arc<OwnedWriteHalf>,
    number: [u8; 8],
}

async fn session(mut from: OwnedReadHalf, to: Arc<OwnedWriteHalf>, locks: Arc<Locks>) {
    let mut heard = Vec::with_capacity(4096);
    // What the client had is freed by name; a client of the bare broker has few names.
    let mut names = HashSet::new();
    while from.read_buf(&mut heard).await.is_ok_and(|length| length > 0) {
        let mut used = 0;
        while let Some(frame) = frame(&heard[used..]) {
            used += 4 + frame.len();
            let Some((what, number, name)) = parts(frame) else {
                break;
            };
            if what == ACQUIRE {
                if !names.contains(name) {
                    names.insert(name.to_vec());
                }
                locks.request(name, Request { client: Arc::clone(&to), number });
            } else {
                locks.end(name, |request| {
                    request.number == number && Arc::ptr_eq(&request.client, &to)
                });
            }
        }
        heard.drain(..used);
    }
    for name in names {
        locks.end(&name, |request| Arc::ptr_eq(&request.client, &to));
    }
}

/// The first frame, if it is whole.
fn frame(heard: &[u8]) -> Option<&[u8]> {
    let (length, rest) = heard.split_first_chunk()?;
    rest.get(..u32::from_le_bytes(*length) as usize)
}

fn parts(frame: &[u8]) -> Option<(u8, [u8; 8], &[u8])> {
    let (&what, rest) = frame.split_first()?;
    let (number, name) = rest.split_first_chunk()?;
    Some((what, *number, name))
}

impl Locks {
    fn queues(&self) -> MutexGuard<'_, HashMap<Vec<u8>, VecDeque<Request>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, name: &[u8], request: Request) {
        let mut queues = self.queues();
        if let Some(queue) = queues.get_mut(name) {
            queue.push_back(request);
        } else {
            request.grant();
            queues.insert(name.to_vec(), VecDeque::from([request]));
        }
    }

    /// Removes some requests. If another request is then the first, grants it.
    fn end(&self, name: &[u8], is_over: impl Fn(&Request) -> bool) {
        let mut queues = self.queues();
        let hash_map::Entry::Occupied(mut entry) = queues.entry(name.to_vec()) else {
            return;
        };
        let queue = entry.get_mut();
        let held = queue.front().is_some_and(&is_over);
        queue.retain(|request| !is_over(request));
        match queue.front() {
            Some(next) if held => next.grant(),
            Some(_) => {}
            None => {
                entry.remove();
            }
        }
    }
}

impl Request {
    /// Tells the client. A client that is gone, or that does not read, is of no concern to a bare broker.
    fn grant(&self) {
        let mut frame = [0; 12];
        frame[..4].copy_from_slice(&8_u32.to_le_bytes());
        frame[4..].copy_from_slice(&self.number);
        let _ = self.client.try_write(&frame);
    }
}

pub(super) struct Client {
    stream: UnixStream,
    number: u64,
    frame: Vec<u8>,
}

impl Client {
    pub(super) fn connect(place: &Path) -> io::Result<Self> {
        Ok(Self { stream: UnixStream::connect(place)?, number: 0, frame: Vec::new() })
    }

    fn say(&mut self, what: u8, name: &str) -> io::Result<()> {
        let length = u32::try_from(HEAD + name.len()).map_err(io::Error::other)?;
        self.frame.clear();
        self.frame.extend_from_slice(&length.to_le_bytes());
        self.frame.push(what);
        self.frame.extend_from_slice(&self.number.to_le_bytes());
        self.frame.extend_from_slice(name.as_bytes());
        self.stream.write_all(&self.frame)
    }

    fn wait_for_grant(&mut self) -> io::Result<()> {
        let mut frame = [0; 12];
        self.stream.read_exact(&mut frame)?;
        if frame[4..] == self.number.to_le_bytes() {
            Ok(())
        } else {
            Err(io::Error::other("another request was granted"))
        }
    }

    fn take(&mut self, name: &str) -> io::Result<()> {
        self.number += 1;
        self.say(ACQUIRE, name)?;
        self.wait_for_grant()
    }
}

impl client::Client for Client {
    fn acquire(&mut self) -> io::Result<()> {
        self.take(NAME)
    }

    fn release(&mut self) -> io::Result<()> {
        self.say(RELEASE, NAME)
    }

    fn take_and_release_other(&mut self, name: &str) -> io::Result<()> {
        self.take(name)?;
        self.say(RELEASE, name)
    }

    fn acquire_after(&mut self, event: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.number += 1;
        self.say(ACQUIRE, NAME)?;
        let waiting = self.number;
        // The answer to this request shows that the earlier request has been read.
        self.take("nobody else's")?;
        self.say(RELEASE, "nobody else's")?;
        event()?;
        self.number = waiting;
        self.wait_for_grant()
    }
}
