//! Many clients at once: whether each of them gets its share of the broker.
//!
//! The clients take and release names that nobody else wants, as fast as the broker lets them. All of them have one CPU
//! and the broker has the other, so that the broker is what they wait for.

use std::{
    ffi::OsStr,
    fmt::{self, Write},
    io::{self, Read, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    sync::{Barrier, OnceLock},
    thread,
    time::Duration,
};

use bytes::BytesMut;
use navlock::Mode;
use navlock_core::host::{RequestId, RequestKind};
use navlock_platform::clock;
use navlock_wire::{FromDaemon, Sent, ToDaemon, VERSION, decode, encode};
use rustix::time::{ClockId, clock_gettime};

use super::{
    layout::{Layout, Seat},
    participant::{Participant, User, write_line},
    peer::{Client, Peer, Turn},
    row::Row,
};
use crate::harness::{Scale, Summary};

/// For how long the clients compete.
const TIME: Duration = Duration::from_secs(10);

/// By how much a share may differ from an equal one.
const FAIR: f64 = 1.5;

/// The first of the users, of whom the system need not know.
const FIRST_USER: u32 = 70_000;

/// Who competes.
#[derive(Clone, Copy)]
pub(super) struct Crowd {
    pub(super) peer: Peer,
    /// Each is a process.
    pub(super) users: u32,
    pub(super) clients_of_each: u32,
    /// Whether a client connects anew for each lock.
    pub(super) comes_and_goes: bool,
}

/// What the shares were, in the medians of the rounds.
pub(super) struct Shares {
    pub(super) crowd: Crowd,
    /// Locks in a second.
    pub(super) rate: f64,
    /// What the user with the least and the one with the most got, as a multiple of what each would have got of equal
    /// shares.
    pub(super) least: f64,
    pub(super) most: f64,
    /// The longest wait for a lock, as a multiple of the mean.
    pub(super) longest: f64,
}

/// Who is measured. The bare broker has one queue for all that it reads, in the order in which the system names it.
const CROWDS: [Crowd; 5] = {
    use Peer::{Bare, NavlockAsking, NavlockSystem};
    const fn of(peer: Peer, users: u32, clients_of_each: u32, comes_and_goes: bool) -> Crowd {
        Crowd { peer, users, clients_of_each, comes_and_goes }
    }
    [
        of(NavlockSystem, 200, 20, false),
        of(NavlockAsking, 50, 20, false),
        of(Bare, 50, 20, false),
        of(NavlockAsking, 50, 2, true),
        of(Bare, 50, 2, true),
    ]
};

/// Has them compete. A quick run has a few.
pub(super) fn measure(rounds: usize, scale: Scale) -> Result<Vec<Shares>, String> {
    let mut all = Vec::new();
    for mut crowd in CROWDS {
        let mut time = TIME;
        if scale == Scale::Quick {
            (crowd.users, crowd.clients_of_each) = (4, 2);
            time = Duration::from_millis(50);
        }
        let mut samples = Vec::new();
        for round in 0..rounds {
            eprintln!("crowd, {}: round {} of {rounds}", crowd.peer.id(), round + 1);
            let sample = compete(crowd, time);
            samples.push(sample.map_err(|error| format!("crowd, {}: {error}", crowd.peer.id()))?);
        }
        let median =
            |nth: usize| Summary::of(samples.iter().map(|sample| sample[nth]).collect()).median;
        let [rate, least, most, longest] = [0, 1, 2, 3].map(median);
        all.push(Shares { crowd, rate, least, most, longest });
    }
    Ok(all)
}

/// Writes the table.
pub(super) fn write(out: &mut String, all: &[Shares]) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nMany clients at once, the broker on one CPU and they on the other, each with a free name of its own: what the \
         processes with the least and the most locks had beside equal shares, and the longest wait beside the mean.\n"
    )?;
    writeln!(out, "| who | locks a second | least | most | longest wait | goal | reached |")?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for Shares { crowd, rate, least, most, longest } in all {
        let Crowd { peer, users, clients_of_each, comes_and_goes } = crowd;
        let name = peer.name(Row::First);
        let who = if *peer == Peer::NavlockSystem { "users" } else { "processes" };
        let new = if *comes_and_goes { ", which connect for each lock" } else { "" };
        write!(
            out,
            "| {name}: {users} {who} with {clients_of_each} clients each{new} | {rate:.0} | {least:.2} × | {most:.2} × | \
             {longest:.2} × | "
        )?;
        if *peer == Peer::Bare {
            writeln!(out, "– | |")?;
        } else {
            let is_fair = *least * FAIR >= 1.0 && *most <= FAIR;
            writeln!(out, "shares within {FAIR} × | {} |", if is_fair { "yes" } else { "no" })?;
        }
    }
    Ok(())
}

/// One round: the rate, the least and the most share, and the longest wait.
fn compete(crowd: Crowd, time: Duration) -> io::Result<[f64; 4]> {
    let directory = tempfile::tempdir()?;
    let place = directory.path().join("sock");
    let _server = crowd.peer.start_ours(Layout::TwoCpus.cpu(Seat::Server)?, &place)?;
    let cpu = Layout::TwoCpus.cpu(Seat::First)?;
    let (clients, time_ms) = (crowd.clients_of_each.to_string(), time.as_millis().to_string());
    let mut users = Vec::new();
    for nth in 0..crowd.users {
        let words: [&OsStr; 6] = [
            "compete".as_ref(),
            crowd.peer.id().as_ref(),
            place.as_os_str(),
            clients.as_ref(),
            time_ms.as_ref(),
            if crowd.comes_and_goes { "goes" } else { "stays" }.as_ref(),
        ];
        // The group is that of the directory. Without root's rights, all are one user.
        let is_several = crowd.peer == Peer::NavlockSystem && rustix::process::geteuid().is_root();
        let user = is_several.then_some(User { uid: FIRST_USER + nth, gid: 0 });
        users.push(Participant::ours_of(cpu, &words, user)?);
    }
    for user in &mut users {
        user.read_until("ready")?;
    }
    // The time that counts is the same for all, and all have begun before.
    let start = since_boot() + time / 2;
    for user in &mut users {
        user.write_line(&start.as_nanos().to_string())?;
    }
    let mut shares = Vec::new();
    let mut longest: f64 = 0.0;
    for user in &mut users {
        let [locks, wait] = user.read_numbers()?[..] else {
            return Err(io::Error::other("a client has said too much"));
        };
        shares.push(locks);
        longest = longest.max(wait);
    }
    let all: f64 = shares.iter().sum();
    let fair = all / f64::from(crowd.users);
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let most = shares.iter().copied().fold(0.0, f64::max);
    let rate = all / time.as_secs_f64();
    let mean_wait = f64::from(crowd.users * crowd.clients_of_each) / rate;
    Ok([rate, least / fair, most / fair, longest / mean_wait])
}

/// The role of a user with so many clients. Says how many locks they had in that time, and the longest wait in seconds.
pub(super) fn compete_as(
    peer: Peer,
    place: &Path,
    clients: u32,
    time: Duration,
    comes_and_goes: bool,
) -> io::Result<()> {
    let together = Barrier::new(usize::try_from(clients).map_err(io::Error::other)? + 1);
    let us = std::process::id();
    let begins = OnceLock::new();
    let one = |nth: u32| {
        let name = format!("crowd/{us}/{nth}");
        let connect = || -> io::Result<Box<dyn Client>> {
            match peer {
                // Else the clients had more to do than the broker, and got what their CPU gives each of them.
                Peer::NavlockSystem | Peer::NavlockAsking if !comes_and_goes => {
                    Ok(Box::new(ByHand::connect(peer, place, nth)?))
                }
                _ => peer.connect(Row::First, place, Turn::First),
            }
        };
        let mut client = Some(connect()?);
        together.wait();
        together.wait();
        let start = *begins.get().ok_or(io::ErrorKind::InvalidInput)?;
        let (mut locks, mut longest) = (0_u32, Duration::ZERO);
        loop {
            let asked = since_boot();
            let mut it: Box<dyn Client> = match client.take() {
                Some(client) if !comes_and_goes => client,
                _ => connect()?,
            };
            it.take_and_release_other(&name)?;
            client = Some(it);
            let now = since_boot();
            if now >= start + time {
                return io::Result::Ok((locks, longest));
            }
            if now >= start {
                longest = longest.max(now.saturating_sub(asked));
                locks += 1;
            }
        }
    };
    thread::scope(|scope| {
        let one = &one;
        let clients: Vec<_> = (0..clients).map(|nth| scope.spawn(move || one(nth))).collect();
        together.wait();
        write_line("ready");
        let mut start = String::new();
        io::stdin().read_line(&mut start)?;
        let start = start.trim().parse().map_err(io::Error::other)?;
        let _ = begins.set(Duration::from_nanos(start));
        together.wait();
        let (mut locks, mut longest) = (0, Duration::ZERO);
        for client in clients {
            let had = client.join().map_err(|_| io::Error::other("a client panicked"))??;
            (locks, longest) = (locks + had.0, longest.max(had.1));
        }
        write_line(&format!("{locks} {}", longest.as_secs_f64()));
        Ok(())
    })
}

/// A client of navlock that knows nothing but the messages for one lock.
struct ByHand {
    stream: UnixStream,
    bytes: BytesMut,
    requests: u64,
}

impl ByHand {
    fn connect(peer: Peer, place: &Path, nth: u32) -> io::Result<Self> {
        let stream = UnixStream::connect(place)?;
        let mut it = Self { stream, bytes: BytesMut::new(), requests: 0 };
        let mut key = [0; 16];
        if peer == Peer::NavlockSystem {
            key[..4].copy_from_slice(&rustix::process::geteuid().as_raw().to_be_bytes());
        }
        key[4..8].copy_from_slice(&std::process::id().to_be_bytes());
        key[8..12].copy_from_slice(&nth.to_be_bytes());
        it.say(&ToDaemon::Hello { oldest: VERSION, newest: VERSION })?;
        it.say(&ToDaemon::Introduce { client: key, returning: false })?;
        let bucket = "bench".to_owned();
        it.say(&ToDaemon::OpenAgent { agent: 0, client_id: key, bucket })?;
        it.hear(|message| matches!(message, FromDaemon::Settled))?;
        Ok(it)
    }

    fn say(&mut self, message: &ToDaemon) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        let sent = Sent { at: clock::monotonic(), message };
        encode(&sent, &mut bytes).map_err(io::Error::other)?;
        self.stream.write_all(&bytes)
    }

    /// Reads until this is said.
    fn hear(&mut self, is_it: impl Fn(&FromDaemon) -> bool) -> io::Result<()> {
        let mut read = [0; 512];
        loop {
            while let Some(message) =
                decode::<FromDaemon>(&mut self.bytes).map_err(io::Error::other)?
            {
                if is_it(&message) {
                    return Ok(());
                }
            }
            match self.stream.read(&mut read)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.bytes.extend_from_slice(&read[..length]),
            }
        }
    }
}

impl Client for ByHand {
    fn acquire(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn release(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn take_and_release_other(&mut self, name: &str) -> io::Result<()> {
        self.requests += 1;
        let request = RequestId::from_parts(0, self.requests);
        let name = name.try_into().map_err(io::Error::other)?;
        let kind = RequestKind::Wait(Mode::Exclusive);
        self.say(&ToDaemon::Request { agent: 0, request, name, kind, slot: None })?;
        self.hear(|message| matches!(message, FromDaemon::Granted { .. }))?;
        self.say(&ToDaemon::Finish { request })
    }
}

/// A clock that is the same in all processes, which the standard library's does not promise.
fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "the clock begins with 0, and there are a billion nanoseconds in a second"
    )]
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
