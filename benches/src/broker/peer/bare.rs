//! A floor: a minimal broker, a loop over epoll that grants locks by name in the order in which it reads requests,
//! and frees what a dead client had. It has exclusive locks only, no versions, no limits, no queries, and promises
//! nothing about the order of what several clients have sent.
//!
//! A client sends frames: the length in four bytes, the kind of message in one, the number of the request in
//! eight, then the lock's name. The answer is the length and the number of the request that was granted.

use std::{
    collections::{HashMap, HashSet, VecDeque, hash_map},
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::AsRawFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    rc::Rc,
};

use mio::{Events, Interest, Poll, Token, event::Event, unix::SourceFd};
use slab::Slab;

use super::{super::row::NAME, client};

const ACQUIRE: u8 = 1;
const RELEASE: u8 = 2;

/// The length of what stands before the name in a frame, without the frame's length.
const HEAD: usize = 9;

const LISTENER: Token = Token(usize::MAX);

/// Serves until it is killed.
pub(super) fn serve(place: &Path, ready: impl FnOnce()) -> io::Result<()> {
    let listener = UnixListener::bind(place)?;
    listener.set_nonblocking(true)?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut SourceFd(&listener.as_raw_fd()), LISTENER, Interest::READABLE)?;
    ready();
    let (mut events, mut sessions) = (Events::with_capacity(1024), Slab::<Session>::new());
    let (mut locks, mut buffer) = (Locks::default(), vec![0; 16 << 10]);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for token in events.iter().map(Event::token) {
            if token == LISTENER {
                while let Some(client) = accept(&listener)? {
                    let token = Token(sessions.vacant_key());
                    let descriptor = client.as_raw_fd();
                    let mut source = SourceFd(&descriptor);
                    poll.registry().register(&mut source, token, Interest::READABLE)?;
                    sessions.insert(Session::new(client));
                }
            } else if sessions
                .get_mut(token.0)
                .is_some_and(|one| !one.read(&mut locks, &mut buffer))
            {
                sessions.remove(token.0).end(&mut locks);
            }
        }
    }
}

fn accept(listener: &UnixListener) -> io::Result<Option<UnixStream>> {
    match listener.accept() {
        Ok((client, _)) => client.set_nonblocking(true).map(|()| Some(client)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// For each name the request that holds, which is the first, and those that wait.
#[derive(Default)]
struct Locks(HashMap<Vec<u8>, VecDeque<Request>>);

struct Request {
    client: Rc<UnixStream>,
    number: [u8; 8],
}

struct Session {
    client: Rc<UnixStream>,
    heard: Vec<u8>,
    /// What the client had is freed by name; a client of the bare broker has few names.
    names: HashSet<Vec<u8>>,
}

impl Session {
    fn new(client: UnixStream) -> Self {
        Self { client: Rc::new(client), heard: Vec::new(), names: HashSet::new() }
    }

    /// Reads and does what the client has sent. Returns whether it may send more.
    fn read(&mut self, locks: &mut Locks, buffer: &mut [u8]) -> bool {
        loop {
            match (&*self.client).read(buffer) {
                Ok(length @ 1..) => self.heard.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Ok(_) | Err(_) => return false,
            }
            let mut used = 0;
            while let Some(frame) = frame(&self.heard[used..]) {
                used += 4 + frame.len();
                let Some((what, number, name)) = parts(frame) else { break };
                if what == ACQUIRE {
                    if !self.names.contains(name) {
                        self.names.insert(name.to_vec());
                    }
                    locks.request(name, Request { client: Rc::clone(&self.client), number });
                } else {
                    locks.end(name, |request| {
                        request.number == number && Rc::ptr_eq(&request.client, &self.client)
                    });
                }
            }
            self.heard.drain(..used);
        }
    }

    fn end(self, locks: &mut Locks) {
        for name in &self.names {
            locks.end(name, |request| Rc::ptr_eq(&request.client, &self.client));
        }
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
    fn request(&mut self, name: &[u8], request: Request) {
        if let Some(queue) = self.0.get_mut(name) {
            queue.push_back(request);
        } else {
            request.grant();
            self.0.insert(name.to_vec(), VecDeque::from([request]));
        }
    }

    /// Removes some requests. If another request is then the first, grants it.
    fn end(&mut self, name: &[u8], is_over: impl Fn(&Request) -> bool) {
        let hash_map::Entry::Occupied(mut entry) = self.0.entry(name.to_vec()) else {
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
        let _ = (&*self.client).write(&frame);
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
