//! The peers: navlock, what other programs lock with, and the floors.

mod bare;
mod client;
mod flock;
mod installed;
mod navlock;
mod ping_pong;
mod postgres;
mod redis;

use std::{
    env,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::Command,
};

use ::navlock::LockManager;

use self::installed::find;
pub(super) use self::{
    client::{Client, Turn},
    navlock::{Asks, lock_manager as navlock_manager},
};
use super::{
    participant::Participant,
    row::{NAME, Row},
};

/// A way to lock between processes, or a floor that no such way can go below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    Navlock,
    /// Navlock in tasks; `Navlock` blocks its thread.
    NavlockAsync,
    /// Navlock with `NAVLOCK_DELEGATE=0`, so that it owns no names.
    NavlockAsking,
    /// Navlock with a broker for several users, who own no names either.
    NavlockSystem,
    /// Navlock's locks within one process, blocking and in a task.
    InProcess,
    InProcessAsync,
    /// No lock: what it costs to ask another process and to get an answer.
    PingPong,
    /// A minimal broker that grants locks in order.
    Bare,
    Flock,
    Redis,
    Postgres,
}

impl Peer {
    const ALL: [Self; 11] = [
        Self::Navlock,
        Self::NavlockAsync,
        Self::NavlockAsking,
        Self::NavlockSystem,
        Self::InProcess,
        Self::InProcessAsync,
        Self::PingPong,
        Self::Bare,
        Self::Flock,
        Self::Redis,
        Self::Postgres,
    ];

    /// All peers that can take part on this machine. Prints which are missing.
    pub(super) fn all_here() -> Vec<Self> {
        let mut peers = Self::ALL.to_vec();
        peers.retain(|peer| {
            let here = !peer.is_installed_apart() || peer.program().is_some();
            if !here {
                eprintln!("{}: skipped, it is not installed", peer.id());
            }
            here
        });
        peers
    }

    pub(super) fn parse(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| peer.id() == id)
    }

    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::Navlock => "navlock",
            Self::NavlockAsync => "navlock-async",
            Self::NavlockAsking => "navlock-asking",
            Self::NavlockSystem => "navlock-system",
            Self::InProcess => "in-process",
            Self::InProcessAsync => "in-process-async",
            Self::PingPong => "ping-pong",
            Self::Bare => "bare",
            Self::Flock => "flock",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
        }
    }

    /// The name of what it does in this row.
    pub(super) const fn name(self, row: Row) -> &'static str {
        match (self, row) {
            (Self::Navlock, Row::Command) => "navlock run NAME true",
            (Self::Navlock, _) => "navlock",
            (Self::NavlockAsync, _) => "navlock, in a task",
            (Self::NavlockAsking, _) => "navlock, NAVLOCK_DELEGATE=0",
            (Self::NavlockSystem, _) => "navlock --system",
            (Self::InProcess, _) => "navlock within one process",
            (Self::InProcessAsync, _) => "navlock within one process, in a task",
            (Self::PingPong, _) => "Unix socket ping-pong, 64 bytes",
            (Self::Bare, _) => "bare broker",
            (Self::Flock, Row::Acquire | Row::Shared) => "flock(2), file kept open",
            (Self::Flock, Row::Handover) => "flock(2), three files in turn",
            (Self::Flock, Row::Command) => "flock FILE true, of util-linux",
            (Self::Flock, _) => "flock(2)",
            (Self::Redis, Row::Handover) => "Redis, RPUSH and BLPOP",
            (Self::Redis, _) => "Redis, SET NX PX and script",
            (Self::Postgres, _) => "PostgreSQL advisory lock",
        }
    }

    pub(super) fn takes_part_in(self, row: Row) -> bool {
        match row {
            Row::Acquire => true,
            // The bare broker has exclusive locks only.
            Row::Shared => self.is_navlock() || self.is_in_process() || self == Self::Flock,
            Row::First => matches!(self, Self::Navlock | Self::NavlockAsking | Self::Bare),
            Row::Recall => {
                matches!(self, Self::Navlock | Self::NavlockAsking | Self::Bare | Self::Flock)
            }
            Row::Handover => {
                !matches!(self, Self::PingPong | Self::NavlockAsync) && !self.is_in_process()
            }
            Row::Query => matches!(self, Self::Navlock | Self::NavlockAsking),
            // Only an owned name is still known after its release.
            Row::QueryIdle => self == Self::Navlock,
            // A lock in Redis has a time to live instead. With PostgreSQL, the waiter's connection does not
            // show whether the waiter waits already.
            Row::Kill => {
                matches!(self, Self::Navlock | Self::NavlockAsking | Self::Bare | Self::Flock)
            }
            Row::Command => self.command(Path::new("")).is_ok(),
        }
    }

    /// The command that runs `true` under its lock, if it comes with one.
    pub(super) fn command(self, place: &Path) -> io::Result<Command> {
        let missing = |what: &str| Err(io::Error::other(format!("{what} is not there")));
        match self {
            Self::Navlock => match env::current_exe()?.with_file_name("navlock") {
                program if program.is_file() => {
                    let mut command = Command::new(program);
                    command.args(["run", NAME, "true"]).env("NAVLOCK_SOCKET", place);
                    Ok(command)
                }
                _ => missing("navlock, built beside the benchmarks,"),
            },
            Self::Flock => match find("flock", &[]) {
                Some(program) => {
                    let mut command = Command::new(program);
                    command.arg(place.join("lock.0")).arg("true");
                    Ok(command)
                }
                None => missing("flock"),
            },
            _ => missing("a command"),
        }
    }

    /// Whether waiting processes stand in a queue, so that any number of them can take the lock in turn.
    pub(super) const fn has_queue(self) -> bool {
        matches!(
            self,
            Self::Navlock | Self::NavlockAsking | Self::NavlockSystem | Self::Bare | Self::Postgres
        )
    }

    const fn is_navlock(self) -> bool {
        matches!(
            self,
            Self::Navlock | Self::NavlockAsync | Self::NavlockAsking | Self::NavlockSystem
        )
    }

    const fn is_in_process(self) -> bool {
        matches!(self, Self::InProcess | Self::InProcessAsync)
    }

    /// Whether it takes a lock that nobody else wants without asking another process.
    pub(super) const fn asks_nobody(self) -> bool {
        matches!(self, Self::Navlock | Self::NavlockAsync | Self::Flock) || self.is_in_process()
    }

    pub(super) fn is_installed_apart(self) -> bool {
        matches!(self, Self::Redis | Self::Postgres)
    }

    /// The server's program, if it is not part of this one.
    fn program(self) -> Option<PathBuf> {
        match self {
            Self::Redis => redis::program(),
            Self::Postgres => postgres::program("postgres"),
            _ => None,
        }
    }

    /// Name and version, if it is a program of its own.
    pub(super) fn version(self) -> Option<String> {
        let output = Command::new(self.program()?).arg("--version").output().ok()?;
        let said = String::from_utf8(output.stdout).ok()?;
        let version = said.split([' ', '=']).find(|word| word.starts_with(char::is_numeric))?;
        let name = if self == Self::Redis { "Redis" } else { "PostgreSQL" };
        Some(format!("{name} {}", version.trim()))
    }

    /// Starts its server, with the server's files in this directory. Returns where its clients find the
    /// server.
    pub(super) fn start(
        self,
        cpu: usize,
        directory: &Path,
    ) -> io::Result<(PathBuf, Option<Participant>)> {
        let place = directory.join("sock");
        match self {
            Self::Flock | Self::InProcess | Self::InProcessAsync => {
                Ok((directory.to_owned(), None))
            }
            Self::Redis => Ok((place.clone(), Some(redis::start(cpu, directory, &place)?))),
            Self::Postgres => {
                postgres::start(cpu, directory).map(|(at, participant)| (at, Some(participant)))
            }
            Self::Navlock
            | Self::NavlockAsync
            | Self::NavlockAsking
            | Self::NavlockSystem
            | Self::PingPong
            | Self::Bare => Ok((place.clone(), Some(self.start_ours(cpu, &place)?))),
        }
    }

    /// Starts this program as its server.
    pub(super) fn start_ours(self, cpu: usize, place: &Path) -> io::Result<Participant> {
        let words = [OsStr::new("serve"), self.id().as_ref(), place.as_os_str()];
        let mut participant = Participant::ours(cpu, &words)?;
        participant.read_until("ready")?;
        Ok(participant)
    }

    /// The role of its server, if the server is part of this program.
    pub(super) fn serve(self, place: &Path, ready: impl FnOnce()) -> io::Result<()> {
        match self {
            Self::Navlock | Self::NavlockAsync => navlock::serve(place, Asks::IfItMust, ready),
            Self::NavlockAsking => navlock::serve(place, Asks::EachTime, ready),
            Self::NavlockSystem => navlock::serve(place, Asks::OfSystem, ready),
            Self::PingPong => ping_pong::serve(place, ready),
            Self::Bare => bare::serve(place, ready),
            Self::Flock | Self::InProcess | Self::InProcessAsync | Self::Redis | Self::Postgres => {
                Err(io::Error::other("it has no server of ours"))
            }
        }
    }

    /// A lock manager, if it is navlock.
    pub(super) fn lock_manager(self, place: &Path) -> io::Result<LockManager> {
        match self {
            Self::Navlock => navlock_manager(place, Asks::IfItMust),
            Self::NavlockAsking => navlock_manager(place, Asks::EachTime),
            Self::NavlockSystem => navlock_manager(place, Asks::OfSystem),
            _ => Err(io::Error::other("it is not navlock")),
        }
    }

    /// A client that does what this row needs.
    pub(super) fn connect(self, row: Row, place: &Path, turn: Turn) -> io::Result<Box<dyn Client>> {
        Ok(match (self, row) {
            (Self::Navlock, _) => {
                Box::new(navlock::Client::new(navlock_manager(place, Asks::IfItMust)?, row))
            }
            (Self::NavlockAsync, _) => {
                Box::new(navlock::Tasks::new(navlock_manager(place, Asks::IfItMust)?, row))
            }
            (Self::NavlockAsking, _) => {
                Box::new(navlock::Client::new(navlock_manager(place, Asks::EachTime)?, row))
            }
            (Self::NavlockSystem, _) => {
                Box::new(navlock::Client::new(navlock_manager(place, Asks::OfSystem)?, row))
            }
            (Self::InProcess, _) => Box::new(navlock::Client::new(navlock::in_process(), row)),
            (Self::InProcessAsync, _) => Box::new(navlock::Tasks::new(navlock::in_process(), row)),
            (Self::PingPong, _) => Box::new(ping_pong::Client::connect(place)?),
            (Self::Bare, _) => Box::new(bare::Client::connect(place)?),
            (Self::Flock, Row::Handover) => Box::new(flock::Relay::open(place, turn)?),
            (Self::Flock, _) => Box::new(flock::Client::open(place, row)?),
            (Self::Redis, Row::Handover) => Box::new(redis::Baton::connect(place, turn)?),
            (Self::Redis, _) => Box::new(redis::Client::connect(place)?),
            (Self::Postgres, _) => Box::new(postgres::Client::connect(place)?),
        })
    }
}

#[cfg(test)]
mod tests;
