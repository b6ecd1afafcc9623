//! Waiting for a daemon, and hearing it.

#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::fd::OwnedFd;
use std::{
    io::{self, Read, Write},
    mem,
    os::unix::net::UnixStream,
    sync::Arc,
    task::Waker,
    time::Instant,
};

use bytes::BytesMut;
pub(super) use navlock_core::host::wake_all as wake;
use navlock_wire::{ClientCodec, CodecError, FromDaemon};
#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::event::epoll;
use rustix::{
    buffer::spare_capacity,
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read},
};
use tokio_util::codec::Decoder;

/// How much is heard at once.
const MOUTHFUL: usize = 16 << 10;

/// The hearing end of a connection.
pub(super) struct Ear {
    socket: Arc<UnixStream>,
    codec: ClientCodec,
    heard: BytesMut,
    /// FAST: mostly little is heard. Memory that was not written to yet is none.
    mouthful: Vec<u8>,
    /// Something was heard that is not understood yet.
    fresh: bool,
    /// There is an end to be heard, of which nobody is told again.
    ends: bool,
    /// For a thread that waits for its own answer.
    watch: Option<Watch>,
    /// What was heard makes no sense, and so does what follows.
    nonsense: Option<String>,
    /// Our file is to be looked after.
    asked_to_register: bool,
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    Closed,
    Nonsense(String),
}

impl Ear {
    /// That of a socket that does not block, with what was heard of it already.
    pub(super) fn new(socket: UnixStream, codec: ClientCodec, heard: BytesMut) -> Self {
        let mouthful = Vec::with_capacity(MOUTHFUL);
        let fresh = !heard.is_empty();
        let (socket, watch, nonsense) = (Arc::new(socket), None, None);
        let asked_to_register = false;
        Self {
            socket,
            codec,
            heard,
            mouthful,
            fresh,
            ends: false,
            watch,
            nonsense,
            asked_to_register,
        }
    }

    /// Waits until there is something to hear, or the bell rings, which is always the same; or until
    /// the deadline.
    pub(super) fn wait(&mut self, bell: &UnixStream, deadline: Option<Instant>) {
        if self.watch.is_none() {
            self.watch = Watch::new(&self.socket, bell);
        }
        match &self.watch {
            Some(watch) => self.ends |= watch.wait(bell, deadline),
            None => _ = wait(Some(&self.socket), false, bell, deadline),
        }
    }

    pub(super) fn socket(&self) -> &Arc<UnixStream> {
        &self.socket
    }

    /// Hears what there is. Whom to wake for it.
    pub(super) fn hear(
        &mut self,
        mut take_in: impl FnMut(FromDaemon, &mut Vec<Waker>),
    ) -> Result<Vec<Waker>, End> {
        let mut wakers = Vec::new();
        if let Some(nonsense) = &self.nonsense {
            return Err(End::Nonsense(nonsense.clone()));
        }
        self.fresh = false;
        self.mouthful.clear();
        match read(&*self.socket, spare_capacity(&mut self.mouthful)) {
            // Said before it ended, and heard before that is told.
            Ok(0) => return Err(End::Closed),
            Ok(_) => {
                self.heard.extend_from_slice(&self.mouthful);
                // There may be more, of which nobody is told again.
                self.fresh = self.mouthful.len() == self.mouthful.capacity();
            }
            Err(Errno::AGAIN) => {}
            Err(Errno::INTR) => self.fresh = true,
            Err(_) => return Err(End::Closed),
        }
        loop {
            match self.codec.decode(&mut self.heard) {
                Ok(Some(FromDaemon::Register)) => self.asked_to_register = true,
                Ok(Some(FromDaemon::Refused { reason })) => {
                    self.nonsense = Some(format!("the broker refuses: {reason}"));
                    return Ok(wakers);
                }
                Ok(Some(message)) => take_in(message, &mut wakers),
                Ok(None) => return Ok(wakers),
                Err(error) => {
                    // Told next time: what was understood until here counts.
                    self.nonsense = Some(nonsense(&error));
                    return Ok(wakers);
                }
            }
        }
    }

    /// Whether the daemon has asked for our file to be looked after, since this was asked last.
    pub(super) fn was_asked_to_register(&mut self) -> bool {
        mem::take(&mut self.asked_to_register)
    }

    /// Whether there is no need to wait before hearing more.
    pub(super) fn has_more(&self) -> bool {
        self.fresh || self.ends || self.nonsense.is_some()
    }
}

/// Both things that a thread waits for, known to the kernel once and for all.
///
/// FAST: to `poll` them is to have the kernel enter the thread in two queues and take it out again,
/// each time. Where there is no epoll, that is how it is done.
#[cfg(any(target_os = "linux", target_os = "android"))]
struct Watch(OwnedFd);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Watch {
    const SOCKET: epoll::EventData = epoll::EventData::new_u64(0);
    const BELL: epoll::EventData = epoll::EventData::new_u64(1);

    /// `None` if we are out of descriptors: polling needs none.
    fn new(socket: &UnixStream, bell: &UnixStream) -> Option<Self> {
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        // Told once of what came, not again of what is still there: whoever hears hears all.
        let new = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&watch, socket, Self::SOCKET, new).ok()?;
        epoll::add(&watch, bell, Self::BELL, epoll::EventFlags::IN).ok()?;
        Some(Self(watch))
    }

    /// Whether the socket has come to its end, what it has still to say aside.
    fn wait(&self, bell: &UnixStream, deadline: Option<Instant>) -> bool {
        const END: epoll::EventFlags =
            epoll::EventFlags::HUP.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ERR);
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: Self::SOCKET }; 2];
        // Interrupted, or nothing to wait for: whoever waits looks for itself.
        let told = epoll::wait(&self.0, &mut events, timeout(deadline).as_ref()).unwrap_or(0);
        if events[..told].iter().any(|event| event.data.u64() == Self::BELL.u64()) {
            silence(bell);
        }
        events[..told].iter().any(|event| {
            // Copied out of its place, which is packed.
            let flags = event.flags;
            event.data.u64() == Self::SOCKET.u64() && flags.intersects(END)
        })
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
enum Watch {}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Watch {
    fn new(_: &UnixStream, _: &UnixStream) -> Option<Self> {
        None
    }

    fn wait(&self, _: &UnixStream, _: Option<Instant>) -> bool {
        match *self {}
    }
}

fn nonsense(error: &CodecError) -> String {
    format!("makes no sense ({error})")
}

/// Two ends, one of which is written to so that whoever polls the other wakes up.
pub(super) struct Wires {
    ring: UnixStream,
    end: UnixStream,
}

impl Wires {
    pub(super) fn new() -> io::Result<Self> {
        let (ring, end) = UnixStream::pair()?;
        ring.set_nonblocking(true)?;
        end.set_nonblocking(true)?;
        Ok(Self { ring, end })
    }

    pub(super) fn ring(&self) {
        // Full is as good.
        let _ = (&self.ring).write(&[0]);
    }

    pub(super) fn end(&self) -> &UnixStream {
        &self.end
    }

    /// Both ends, to be held by different owners.
    pub(super) fn split(self) -> (UnixStream, UnixStream) {
        (self.ring, self.end)
    }
}

/// Waits until one of these has something: the socket, if it is to be heard (`Some`), or room for
/// what is `left` to be sent, or the bell, which is silenced. Or until the deadline. Whether the
/// bell rang.
pub(super) fn wait(
    socket: Option<&UnixStream>,
    left: bool,
    bell: &UnixStream,
    deadline: Option<Instant>,
) -> bool {
    let mut interest = PollFlags::IN;
    if left {
        interest |= PollFlags::OUT;
    }
    // A bell that is polled twice rings twice.
    let socket =
        socket.map_or(PollFd::new(bell, PollFlags::IN), |socket| PollFd::new(socket, interest));
    let mut polled = [PollFd::new(bell, PollFlags::IN), socket];
    // Interrupted, or nothing to wait for: whoever waits looks for itself.
    let _ = poll(&mut polled, timeout(deadline).as_ref());
    let rang = !polled[0].revents().is_empty();
    if rang {
        silence(bell);
    }
    rang
}

/// Whether the other end has closed the socket, or ended: also while there is something to be heard.
pub(super) fn has_hung_up(socket: &UnixStream) -> bool {
    let ends = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let ends = ends | PollFlags::RDHUP;
    let mut polled = [PollFd::new(socket, ends)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // What cannot be asked is not there.
    poll(&mut polled, Some(&now)).is_err() || polled[0].revents().intersects(ends)
}

fn timeout(deadline: Option<Instant>) -> Option<Timespec> {
    deadline.map(|deadline| {
        let left = deadline.saturating_duration_since(Instant::now());
        // Too long for the kernel is as long as it can.
        Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1 << 31, tv_nsec: 0 })
    })
}

fn silence(mut bell: &UnixStream) {
    let _ = bell.read(&mut [0; 64]);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use navlock_wire::DaemonCodec;
    use tokio_util::codec::Encoder;

    use super::*;

    #[test]
    fn an_end_that_comes_with_the_last_words_is_heard_after_them() {
        let (mut daemon, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let bell = Wires::new().unwrap();
        let mut ear = Ear::new(ours, ClientCodec::default(), BytesMut::new());
        // The kernel is asked once before there is anything.
        ear.wait(bell.end(), Some(Instant::now()));
        let mut bytes = BytesMut::new();
        DaemonCodec::default().encode(&FromDaemon::Settled, &mut bytes).unwrap();
        daemon.write_all(&bytes).unwrap();
        drop(daemon);
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut heard = 0;
        let end = loop {
            if !ear.has_more() {
                ear.wait(bell.end(), Some(deadline));
                assert!(Instant::now() < deadline, "the end was not heard");
            }
            match ear.hear(|_, _| heard += 1) {
                Ok(_) => {}
                Err(end) => break end,
            }
        };
        assert!(matches!(end, End::Closed));
        assert_eq!(heard, 1);
    }
}
